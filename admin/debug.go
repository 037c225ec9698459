package admin

// debugRoutes are for who looks into the program itself.
func (s *Server) debugRoutes() []route { return nil }
