package relaytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certs is a certificate authority made for one test, with one certificate for the
// relay (localhost, 127.0.0.1, ::1) and one for the worker. The files are PEM.
type Certs struct {
	CAFile, CertFile, KeyFile string // RELAY_CA_FILE, RELAY_CERT_FILE, RELAY_KEY_FILE

	pool   *x509.CertPool
	server tls.Certificate
}

// NewCerts makes them, valid for a day, below a directory that others may read.
func NewCerts(t testing.TB) *Certs {
	t.Helper()
	dir, err := os.MkdirTemp("", "ew-certs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &Certs{
		CAFile:   filepath.Join(dir, "ca.pem"),
		CertFile: filepath.Join(dir, "worker.pem"),
		KeyFile:  filepath.Join(dir, "worker.key"),
		pool:     x509.NewCertPool(),
	}
	caCert, caKey := issue(t, "relaytest CA", nil, nil)
	ca, err := x509.ParseCertificate(caCert)
	if err != nil {
		t.Fatal(err)
	}
	c.pool.AddCert(ca)
	serverCert, serverKey := issue(t, "relay", ca, caKey)
	c.server = tls.Certificate{Certificate: [][]byte{serverCert}, PrivateKey: serverKey}
	workerCert, workerKey := issue(t, "worker", ca, caKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(workerKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, c.CAFile, "CERTIFICATE", caCert)
	writePEM(t, c.CertFile, "CERTIFICATE", workerCert)
	writePEM(t, c.KeyFile, "PRIVATE KEY", keyDER)
	return c
}

// Server is for WithTLS. If mutual, only a worker with a certificate gets in.
func (c *Certs) Server(mutual bool) *tls.Config {
	tc := &tls.Config{Certificates: []tls.Certificate{c.server}, MinVersion: tls.VersionTLS12}
	if mutual {
		tc.ClientAuth, tc.ClientCAs = tls.RequireAndVerifyClientCert, c.pool
	}
	return tc
}

// issue makes a certificate signed by parent, or by itself as an authority.
func issue(t testing.TB, name string, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if parent == nil {
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
		parent, parentKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
}
