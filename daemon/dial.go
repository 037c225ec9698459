package daemon

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// dialTimeout bounds TCP, TLS and the HTTP/2 preface together. With the
	// longest back-off, which is counted from the start of an attempt, Hello
	// still arrives 35 s after a relay is back.
	dialTimeout = 5 * time.Second

	receiveMost = 64 << 20 // bytes a message
	maxPEM      = 16 << 20 // bytes a file; a system's whole bundle is 0.3 MiB

	// A relay sends nothing while it has nothing to ask for, so a dead link is
	// found by the kernel: by keepalive when idle, by userTimeout when our
	// heartbeats are not acknowledged (tcp(7)). HTTP/2 pings would find it too,
	// but stock gRPC servers end a connection that pings more than once in 5
	// minutes.
	keepaliveIdle  = 15 * time.Second
	keepaliveCount = 3
	userTimeout    = 60 * time.Second
)

// dial returns a connection for one session. It is made afresh for each, so
// that the back-off is ours alone, and reads certificates again, so that they
// can be rotated. The caller closes it. No byte has been sent when it returns:
// the first call on it connects, and fails at once if that fails.
func (r Relay) dial() (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if r.TLS {
		config, err := r.tlsConfig()
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(config)
	}
	return grpc.NewClient("passthrough:///"+r.Addr,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(r.dialTCP),
		// It is the session that gives up after dialTimeout, and says so. Both at
		// once would be a race for what the record of the attempt says.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 2 * dialTimeout}),
		// Fixed windows: otherwise gRPC measures the link, with pings.
		grpc.WithInitialWindowSize(1<<20),
		grpc.WithInitialConnWindowSize(2<<20),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(receiveMost), grpc.ForceCodecV2(codec{})),
	)
}

func (r Relay) tlsConfig() (*tls.Config, error) {
	host, _, err := net.SplitHostPort(r.Addr)
	if err != nil {
		return nil, fmt.Errorf("relay address: %w", err)
	}
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if r.CAFile != "" {
		pem, err := readRegular(r.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA: %w", err)
		}
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool() // an image without any
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read CA: no certificate in %s", r.CAFile)
		}
		config.RootCAs = roots
	}
	if r.CertFile != "" {
		cert, err := readPair(r.CertFile, r.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

func readPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := readRegular(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readRegular(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// readRegular reads a file and nothing else: a FIFO or a device could hold up
// the attempt for ever, and a drain with it. Opening one does not block either.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err == nil && len(text) > maxPEM {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxPEM>>20)
	}
	return text, err
}

// dialTCP connects to addr, through its proxy if it has one. gRPC does not look
// for one where it is given a dialer.
func (r Relay) dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var proxy *url.URL
	if r.Proxy != nil {
		var err error
		if proxy, err = r.Proxy(&url.URL{Scheme: "https", Host: addr}); err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
	}
	dialer := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepaliveIdle, Interval: keepaliveIdle, Count: keepaliveCount},
		Control: func(_, _ string, c syscall.RawConn) error {
			var set error
			err := c.Control(func(fd uintptr) {
				set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
			})
			return errors.Join(err, set)
		},
	}
	if proxy == nil {
		return dialer.DialContext(ctx, "tcp", addr)
	}
	return connectThrough(ctx, dialer, proxy, addr)
}

// connectThrough asks an HTTP proxy for a tunnel to addr (RFC 9110, 9.3.6).
func connectThrough(ctx context.Context, dialer net.Dialer, proxy *url.URL, addr string) (_ net.Conn, err error) {
	if proxy.Scheme != "http" {
		return nil, fmt.Errorf("proxy %s: only http proxies are supported", proxy.Redacted())
	}
	host := proxy.Host
	if proxy.Port() == "" {
		host = net.JoinHostPort(proxy.Hostname(), "80")
	}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()

	request := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\n"
	if user := proxy.User; user != nil {
		password, _ := user.Password()
		request += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	buffered := bufio.NewReader(conn)
	response := textproto.NewReader(buffered)
	status, err := response.ReadLine()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if _, err := response.ReadMIMEHeader(); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if fields := strings.Fields(status); len(fields) < 2 || fields[1] != "200" {
		return nil, fmt.Errorf("proxy: CONNECT %s: answered %q", addr, status)
	}
	return &tunnel{Conn: conn, rest: buffered}, nil
}

// tunnel is a connection of which the first bytes may have been read already.
type tunnel struct {
	net.Conn
	rest *bufio.Reader
}

func (t *tunnel) Read(p []byte) (int, error) { return t.rest.Read(p) }
