package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// clearSettings unsets every variable of ours for one test.
func clearSettings(t *testing.T) {
	t.Helper()
	for _, s := range settingsOf(reflect.TypeFor[commands]()) {
		name := s.Tag.Get("env")
		t.Setenv(name, "") // only to have it put back
		os.Unsetenv(name)
	}
}

// parseSettings is what a command makes of variables ("NAME=value") and arguments.
func parseSettings(t *testing.T, variables []string, args ...string) (*commands, error) {
	t.Helper()
	clearSettings(t)
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	unsetEmpty()
	var all commands
	var out bytes.Buffer
	parser, err := newParser(&all, &program{stdout: &out, stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := parse(parser, args)
	if err != nil {
		return nil, err
	}
	if err := refuseSecretFlags(chosen); err != nil {
		return nil, err
	}
	switch args[0] {
	case "serve":
		return &all, all.Serve.validate()
	case "relay":
		return &all, all.Relay.validate()
	default:
		return &all, all.Exec.validate()
	}
}

// tlsFiles makes a certificate, its key and another key.
func tlsFiles(t *testing.T) (cert, key, other string) {
	t.Helper()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var keys [2]*ecdsa.PrivateKey
	var paths [2]string
	for i := range keys {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		keys[i], paths[i] = k, write("key.pem", "PRIVATE KEY", der)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, keys[0].Public(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	return write("cert.pem", "CERTIFICATE", der), paths[0], paths[1]
}

func TestSettingsRefuse(t *testing.T) {
	cert, key, other := tlsFiles(t)
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("two\nlines"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", maxName)
	tests := []struct {
		variables string // separated by |
		args      string
		want      string // in the error; empty: none
	}{
		{"", "serve", ""},
		{"", "relay", ""},
		{"", "exec true", ""},

		{"RELAY_ADDR=relay", "serve", "RELAY_ADDR"},
		{"RELAY_ADDR=", "serve", "RELAY_ADDR"},
		{"RELAY_ADDR=:8443", "serve", "RELAY_ADDR"},
		{"RELAY_ADDR=https://relay:443", "serve", "RELAY_ADDR"},
		{"RELAY_ADDR=relay:0", "serve", "RELAY_ADDR"},
		{"RELAY_ADDR=relay:65536", "exec true", "RELAY_ADDR"},
		{"RELAY_ADDR=::1:8443", "serve", "RELAY_ADDR"},
		{"RELAY_ADDR=[::1]:8443", "serve", ""},

		{"RELAY_ADDR=127.0.0.1:8443", "serve", ""},
		{"RELAY_ADDR=my_relay-2.example.:1", "serve", ""},
		{"RELAY_ADDR=3com.example:65535", "serve", ""},

		{"RELAY_TLS=yes", "serve", "RELAY_TLS"},
		{"RELAY_TLS=TRUE", "serve", "RELAY_TLS"},
		{"RELAY_TLS=", "serve", "RELAY_TLS"},
		{"RELAY_TLS=2", "exec true", "RELAY_TLS"},
		{"", "serve --relay-tls=on", "relay-tls"},
		{"RELAY_TLS=0", "serve", ""},
		{"RELAY_TLS=false", "serve", ""},

		{"RELAY_CA_FILE=" + cert, "serve", "RELAY_TLS=1"},
		{"RELAY_CERT_FILE=" + cert + "|RELAY_KEY_FILE=" + key, "exec true", "RELAY_TLS=1"},
		{"RELAY_TLS=1|RELAY_CERT_FILE=" + cert, "serve", "RELAY_KEY_FILE"},
		{"RELAY_TLS=1|RELAY_KEY_FILE=" + key, "serve", "RELAY_CERT_FILE"},
		{"RELAY_TLS=1|RELAY_CERT_FILE=" + cert + "|RELAY_KEY_FILE=" + other, "serve", "no pair"},
		{"RELAY_TLS=1|RELAY_CERT_FILE=" + cert + "|RELAY_KEY_FILE=/nowhere", "serve", "/nowhere"},
		{"RELAY_TLS=1|RELAY_CERT_FILE=" + cert + "|RELAY_KEY_FILE=" + key, "serve", ""},
		{"RELAY_TLS=1|RELAY_CA_FILE=/nowhere", "serve", "RELAY_CA_FILE"},
		{"RELAY_TLS=1|RELAY_CA_FILE=" + garbage, "serve", "RELAY_CA_FILE"},
		{"RELAY_TLS=1|RELAY_CA_FILE=" + cert, "serve", ""},
		{"RELAY_CA_FILE=", "serve", ""},

		{"SANDBOX_ID=", "serve", "SANDBOX_ID"},
		{"SANDBOX_ID=a\xffb", "serve", "SANDBOX_ID"},
		{"SANDBOX_IMAGE=\xff", "serve", "SANDBOX_IMAGE"},
		{"SANDBOX_TRUST=\xff", "serve", "SANDBOX_TRUST"},
		{"WORKER_LABELS=a=\xff", "serve", "WORKER_LABELS"},
		{"SANDBOX_ID=日本", "serve", ""},
		{"SANDBOX_ID=" + long, "serve", ""},
		{"SANDBOX_ID=" + long + "x", "serve", "SANDBOX_ID"},
		{"SANDBOX_ID=a b", "serve", "SANDBOX_ID"},
		{"SANDBOX_ID=a\u00a0b", "serve", "SANDBOX_ID"},
		{"SANDBOX_ID=a\tb", "serve", "SANDBOX_ID"},
		{"SANDBOX_ID=a\x7f", "exec true", "SANDBOX_ID"},
		{"SANDBOX_ID=a\u200bb", "serve", "SANDBOX_ID"},
		{"SANDBOX_IMAGE=an image", "serve", ""},
		{"SANDBOX_IMAGE=a\nb", "serve", "SANDBOX_IMAGE"},
		{"SANDBOX_IMAGE=" + long + "x", "serve", "SANDBOX_IMAGE"},
		{"SANDBOX_TRUST=a\x1b[2J", "serve", "SANDBOX_TRUST"},
		{"SANDBOX_TRUST=" + long + "x", "serve", "SANDBOX_TRUST"},

		{"SANDBOX_TOKEN=a|SANDBOX_TOKEN_FILE=" + garbage, "serve", "both set"},
		{"SANDBOX_TOKEN=", "serve", "SANDBOX_TOKEN"},
		{"SANDBOX_TOKEN_FILE=", "serve", "SANDBOX_TOKEN"},
		{"SANDBOX_TOKEN=|SANDBOX_TOKEN_FILE=" + cert, "serve", "SANDBOX_TOKEN_FILE"}, // many lines
		{"SANDBOX_TOKEN=a|SANDBOX_TOKEN_FILE=", "serve", ""},
		{"SANDBOX_TOKEN=a\nb", "serve", "SANDBOX_TOKEN"},
		{"SANDBOX_TOKEN=a b", "serve", "SANDBOX_TOKEN"},
		{"SANDBOX_TOKEN=é", "serve", "SANDBOX_TOKEN"},
		{"SANDBOX_TOKEN=" + strings.Repeat("x", maxToken), "serve", ""},
		{"SANDBOX_TOKEN=" + strings.Repeat("x", maxToken+1), "serve", "SANDBOX_TOKEN"},
		{"RELAY_EXEC_TOKEN=" + strings.Repeat("x", maxToken+1), "relay", "RELAY_EXEC_TOKEN"},
		{"SANDBOX_TOKEN_FILE=/nowhere", "serve", "SANDBOX_TOKEN_FILE"},
		{"SANDBOX_TOKEN_FILE=" + garbage, "serve", "SANDBOX_TOKEN_FILE"},
		{"", "serve --sandbox-token=x", "set SANDBOX_TOKEN instead"},
		{"", "exec --relay-exec-token=x true", "set RELAY_EXEC_TOKEN instead"},
		{"RELAY_EXEC_TOKEN=a\tb", "exec true", "RELAY_EXEC_TOKEN"},

		{"WORKER_MAX_CONCURRENT=0", "serve", "WORKER_MAX_CONCURRENT"},
		{"WORKER_MAX_CONCURRENT=-1", "serve", "WORKER_MAX_CONCURRENT"},
		{"WORKER_MAX_CONCURRENT=four", "serve", "WORKER_MAX_CONCURRENT"},
		{"WORKER_MAX_CONCURRENT=1e3", "serve", "WORKER_MAX_CONCURRENT"},
		{"WORKER_MAX_CONCURRENT=5000", "serve", "WORKER_MAX_CONCURRENT"},
		{"WORKER_MAX_CONCURRENT=", "serve", ""},
		{"WORKER_LABELS=a", "serve", "WORKER_LABELS"},
		{"WORKER_LABELS==b", "serve", "WORKER_LABELS"},
		{"WORKER_LABELS=a=b,", "serve", "WORKER_LABELS"},
		{"WORKER_LABELS=a=b,a=c", "serve", "WORKER_LABELS"},
		{"WORKER_LABELS=a=b c", "serve", ""},
		{"WORKER_LABELS=a=" + long, "serve", ""},
		{"WORKER_LABELS=a=" + long + "x", "serve", "WORKER_LABELS"},
		{"WORKER_LABELS=" + long + "x=a", "serve", "WORKER_LABELS"},
		{"WORKER_LABELS=a=b\x1bc", "serve", "WORKER_LABELS"},
		{"WORKER_LABELS=a\u202eb=c", "serve", "WORKER_LABELS"},
		{"WORKSPACE_ROOT=work", "serve", "WORKSPACE_ROOT"},
		{"WORKSPACE_ROOT=./work", "serve", "WORKSPACE_ROOT"},
		{"", "serve --workspace-root=", "WORKSPACE_ROOT"},
		{"WORKSPACE_ROOT=" + garbage, "serve", "WORKSPACE_ROOT"},
		{"WORKSPACE_ROOT=" + garbage + "/in", "serve", "WORKSPACE_ROOT"},
		{"WORKSPACE_ROOT=" + garbage + "-not-yet", "serve", ""},
		{"WORKSPACE_IDLE=-1s", "serve", "WORKSPACE_IDLE"},
		{"WORKSPACE_IDLE=half an hour", "serve", "WORKSPACE_IDLE"},
		{"EXECWORKER_DRAIN=-1s", "serve", "EXECWORKER_DRAIN"},
		{"EXECWORKER_SURVIVORS=kill", "serve", "EXECWORKER_SURVIVORS"},
		{"EXECWORKER_NICE=20", "serve", "EXECWORKER_NICE"},
		{"EXECWORKER_NICE=-1", "serve", "EXECWORKER_NICE"},
		{"EXECWORKER_OUTPUT_HASH=yes", "serve", "EXECWORKER_OUTPUT_HASH"},
		{"LOG_LEVEL=trace", "serve", "LOG_LEVEL"},
		{"LOG_FORMAT=xml", "serve", "LOG_FORMAT"},
		{"LOG_LEVEL=|LOG_FORMAT=", "serve", ""},

		{"RELAY_LISTEN=8443", "relay", "RELAY_LISTEN"},
		{"RELAY_LISTEN=0.0.0.0:8443", "relay", "SANDBOX_TOKEN"},
		{"RELAY_LISTEN=0.0.0.0:8443|SANDBOX_TOKEN=x", "relay", ""},
		{"RELAY_LISTEN=[::1]:0", "relay", ""},
		{"", "exec --timeout=-1s true", "--timeout"},
		{"", "exec --timeout=4294967296 true", "4294967295"},
		{"", "exec --timeout=4294967295.5s true", "4294967295"},
		{"", "exec --timeout=1193047h true", "4294967295"},
		{"", "exec --timeout=99999999999 true", "4294967295"},
		{"", "exec --timeout=99999999999999999999 true", "4294967295"},
		{"", "exec --timeout=4294967295 true", ""},
		{"WORKSPACE_IDLE=9223372037", "serve", "9223372036"},
		{"", "exec -- echo \xff", "UTF-8"},
		// What another command makes of a variable is no business of this one.
		{"RELAY_LISTEN=garbage|LOG_LEVEL=garbage", "exec true", ""},
	}
	for _, tt := range tests {
		t.Run(tt.args+" "+tt.variables, func(t *testing.T) {
			var variables []string
			if tt.variables != "" {
				variables = strings.Split(tt.variables, "|")
			}
			_, err := parseSettings(t, variables, strings.Fields(tt.args)...)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && err == nil:
				t.Errorf("taken, want an error about %s", tt.want)
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Errorf("got %q, want it to name %s", err, tt.want)
			}
		})
	}
}

func TestSettingsReachTheDaemon(t *testing.T) {
	all, err := parseSettings(t, []string{"RELAY_ADDR=r:1", "SANDBOX_ID=s", "SANDBOX_IMAGE=i", "SANDBOX_TRUST=t",
		"WORKER_LABELS=a=b, c=d=e", "WORKER_MAX_CONCURRENT=7", "WORKSPACE_ROOT=/w", "WORKSPACE_IDLE=0",
		"EXECWORKER_DRAIN=3s", "EXECWORKER_SURVIVORS=sweep", "EXECWORKER_NICE=0", "EXECWORKER_OUTPUT_HASH=1"}, "serve", "--sandbox-image=flag")
	if err != nil {
		t.Fatal(err)
	}
	got := all.Serve.config([]string{"PATH=/bin"})
	if token, err := got.Relay.Token(); token != devToken || err != nil {
		t.Errorf("token %q, %v", token, err)
	}
	if got.Relay.Proxy == nil {
		t.Error("proxies are not looked for")
	}
	got.Relay.Token, got.Relay.Proxy = nil, nil
	want := got
	want.Relay.Addr, want.SandboxID, want.Image, want.Trust = "r:1", "s", "flag", "t"
	want.Labels = map[string]string{"a": "b", "c": "d=e"}
	want.Slots, want.WorkspaceRoot, want.WorkspaceIdle, want.Drain = 7, "/w", 0, 3*time.Second
	want.SweepSurvivors, want.Nice, want.HashOutput, want.Env = true, 0, true, []string{"PATH=/bin"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLoopback(t *testing.T) {
	tests := map[string]bool{
		"localhost:1": true, "LOCALHOST.:1": true, "127.9.9.9:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		"relay:1": false, "10.0.0.1:1": false, "localhost.evil.example:1": false, "0.0.0.0:1": false, "127.0.0.1.nip.io:1": false,
	}
	for addr, want := range tests {
		if got := isLoopback(addr); got != want {
			t.Errorf("isLoopback(%q) = %v", addr, got)
		}
	}
}

func TestProblemsComeOneALine(t *testing.T) {
	var stderr bytes.Buffer
	p := &program{stderr: &stderr}
	code := p.fail(usage(errors.Join(errors.New("first\x1b"), errors.New("second"))))
	if want := "execworker: first␛\nexecworker: second\n"; stderr.String() != want || code != exitUsage {
		t.Errorf("code %d, %q, want %q", code, stderr.String(), want)
	}
}
