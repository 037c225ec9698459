package admin

// execRoutes are about one exec: what it does, why it is stuck, how it ended.
func (s *Server) execRoutes() []route { return nil }
