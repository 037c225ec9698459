package admin

// actRoutes are what changes something: abort, loglevel, drain.
func (s *Server) actRoutes() []route { return nil }
