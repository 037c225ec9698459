package admin

// metaRoutes are about the API and the program: index, openapi.json, flags, metrics.
func (s *Server) metaRoutes() []route { return nil }
