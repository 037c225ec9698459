package admin

// healthRoutes are livez and readyz.
func (s *Server) healthRoutes() []route { return nil }
