package admin

// feedRoutes are the feed's, over SSE and NDJSON.
func (s *Server) feedRoutes() []route { return nil }
