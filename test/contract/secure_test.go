package contract

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"execworker/test/relaytest"
)

func TestTLSWithAnExtraCA(t *testing.T) {
	certs := relaytest.NewCerts(t)
	r := relaytest.New(t, relaytest.WithTLS(certs.Server(false)))
	relaytest.StartWorker(t, r, relaytest.Env{"RELAY_TLS": "1", "RELAY_CA_FILE": certs.CAFile})
	alive(t, r.Attach(t))
}

func TestTLSWithoutTheCAIsRefusedByTheWorker(t *testing.T) {
	r := relaytest.New(t, relaytest.WithTLS(relaytest.NewCerts(t).Server(false)))
	w := relaytest.StartWorker(t, r, relaytest.Env{"RELAY_TLS": "true"})
	w.WaitLog(t, "attach failed")
	w.WaitLog(t, "certificate signed by unknown authority")
}

func TestMutualTLSWithFilesThatAreReadAgain(t *testing.T) {
	certs, other := relaytest.NewCerts(t), relaytest.NewCerts(t)
	r := relaytest.New(t, relaytest.WithTLS(certs.Server(true)))
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	install := func(from *relaytest.Certs) {
		for to, from := range map[string]string{cert: from.CertFile, key: from.KeyFile} {
			b, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	install(other)
	w := relaytest.StartWorker(t, r, relaytest.Env{"RELAY_TLS": "1", "RELAY_CA_FILE": certs.CAFile, "RELAY_CERT_FILE": cert, "RELAY_KEY_FILE": key})
	w.WaitLog(t, "attach failed")
	install(certs)
	alive(t, r.Attach(t))
}

func TestTokenFileIsReadAgainAtEveryDial(t *testing.T) {
	r := relaytest.New(t, relaytest.WithToken("new-token"))
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("old-token\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := relaytest.StartWorker(t, r, relaytest.Env{"SANDBOX_TOKEN_FILE": file})
	w.WaitLog(t, "refused or duplicate sandbox_id")
	if err := os.WriteFile(file, []byte("new-token\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	alive(t, r.Attach(t))
	if strings.Contains(w.Stderr(), "-token") {
		t.Error("the token is in the log")
	}
}

func TestMissingBashIsNamedAndTheWorkerUnharmed(t *testing.T) {
	_, s, _ := attach(t, relaytest.Env{"PATH": t.TempDir()})
	for id := range uint64(3) {
		s.Exec(t, id, "echo hi")
		s.WantError(t, id, "spawn: find bash: ")
	}
}

func TestTheMachineWorksAsAnotherUserAndAsPID1(t *testing.T) {
	for name, option := range map[string]relaytest.WorkerOption{
		"uid 65534": relaytest.WithUID(65534, 65534),
		"PID 1":     relaytest.AsPID1(),
	} {
		t.Run(name, func(t *testing.T) {
			r, s, _ := attach(t, nil, option)
			marker := relaytest.Marker()
			s.Exec(t, 1, "echo out; echo err >&2; exit 7")
			s.WantEnd(t, 1, 7)
			s.WantOutput(t, 1, "out\n", "err\n")
			s.Exec(t, 2, "(setsid bash -c 'exec -a "+marker+" sleep 300' &) ; env -i setsid bash -c 'exec -a "+marker+" sleep 300' & echo up; exec -a "+marker+" sleep 300", streaming)
			s.WaitOutput(t, 2, "up")
			relaytest.WaitProcess(t, marker, 3)
			s.Abort(t, 2)
			s.WantEnd(t, 2, -1)
			if left := relaytest.Marked(t, marker); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			s.Exec(t, 3, "setsid bash -c 'exec -a "+marker+" sleep 300' | cat", relaytest.Timeout(1))
			s.WantError(t, 3, "timeout:1")
			relaytest.WantNoProcess(t, marker)
			s.Drop(nil)
			alive(t, r.Attach(t))
		})
	}
}
