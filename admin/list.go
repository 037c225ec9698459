package admin

// listRoutes are the lists: status, inflight, execs, cache, connections, survivors.
func (s *Server) listRoutes() []route { return nil }
