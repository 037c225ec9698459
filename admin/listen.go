package admin

// Socket is the path of the unix socket; empty before Listen.
func (s *Server) Socket() string { return "" }

// Addrs are the TCP addresses that are bound.
func (s *Server) Addrs() []string { return nil }

// Problems says which address could not be bound, and why.
func (s *Server) Problems() []string { return nil }
