package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// maxEvent is what one event of a relay may weigh; relays take no more from a worker.
const maxEvent = 16<<20 + 64<<10

// caller asks a relay for execs on one sandbox.
type caller struct {
	client    sandboxv1.SandboxExecClient
	sandboxID string
}

// exec runs x and hands its output to out as it comes, until the terminal frame:
// one of end and failure is set. An error is the relay's or the link's.
func (c caller) exec(ctx context.Context, x *sandboxv1.Exec, out func(*sandboxv1.Chunk)) (end *sandboxv1.End, failure *sandboxv1.ExecError, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the call if it is not over, and frees it in any case
	events, err := c.client.Exec(ctx, &sandboxv1.ExecRequest{SandboxId: c.sandboxID, Exec: x})
	if err != nil {
		return nil, nil, plainStatus(err)
	}
	for {
		event, err := events.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil, errors.New("the call ended without a terminal frame")
		case err != nil:
			return nil, nil, plainStatus(err)
		}
		switch e := event.GetEvent().(type) {
		case *sandboxv1.ExecEvent_Chunk:
			out(e.Chunk)
		case *sandboxv1.ExecEvent_End:
			return e.End, nil, nil
		case *sandboxv1.ExecEvent_Error:
			return nil, e.Error, nil
		}
	}
}

// abort asks for the exec to be stopped. Its terminal frame tells when it is.
func (c caller) abort(ctx context.Context, reqID uint64) error {
	_, err := c.client.Abort(ctx, &sandboxv1.AbortRequest{SandboxId: c.sandboxID, ReqId: reqID})
	return plainStatus(err)
}

// plainStatus is a gRPC error as a sentence of ours: code and message.
func plainStatus(err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	return fmt.Errorf("%s (%s)", s.Message(), s.Code())
}

// newReqID is a random number that no other caller has, and that JavaScript can
// hold: 53 bits, never 0.
func newReqID() uint64 {
	for {
		var b [8]byte
		rand.Read(b[:])
		if id := binary.BigEndian.Uint64(b[:]) >> 11; id != 0 {
			return id
		}
	}
}

// dialRelay makes a connection to a relay; it is dialled by the first call.
func dialRelay(link linkSettings, token string) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if link.RelayTLS {
		config, err := link.tlsConfig()
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(config)
	}
	return grpc.NewClient(link.RelayAddr,
		grpc.WithTransportCredentials(creds),
		grpc.WithPerRPCCredentials(bearer(token)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxEvent)))
}

// tlsConfig trusts the system's roots and RELAY_CA_FILE, and shows the
// certificate of RELAY_CERT_FILE if there is one.
func (s linkSettings) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.RelayCAFile != "" {
		pem, err := readRegular("RELAY_CA_FILE", s.RelayCAFile, maxPEMFile)
		if err != nil {
			return nil, err
		}
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			config.RootCAs = x509.NewCertPool() // an image may have no roots of its own
		}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("RELAY_CA_FILE holds no certificate in PEM form: %q", s.RelayCAFile)
		}
	}
	if s.RelayCertFile != "" {
		cert, err := readRegular("RELAY_CERT_FILE", s.RelayCertFile, maxPEMFile)
		if err != nil {
			return nil, err
		}
		key, err := readRegular("RELAY_KEY_FILE", s.RelayKeyFile, maxPEMFile)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("RELAY_CERT_FILE and RELAY_KEY_FILE are no pair: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// bearer sends the token with every call, also without TLS: in a cluster or on a
// laptop that is how relays are reached, and serve warns of it.
type bearer string

var _ credentials.PerRPCCredentials = bearer("")

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (b bearer) RequireTransportSecurity() bool { return false }
