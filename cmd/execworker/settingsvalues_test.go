package main

import (
	"strings"
	"testing"
	"time"
)

func TestAddressesThatNobodyCouldDial(t *testing.T) {
	hosts := []string{"", "a b", " a", "a\tb", "a\x00", "a%41", "fe80::1%eth0", "[fe80::1%eth0]", "a?b", "a#b", "a/b", "a@b", "a,b",
		"a..b", ".a", ".", "a..", "-a", "a-", "é", "[a]", "[127.0.0.1]", "[]", "1.2.3", "1.2.3.256", "010.0.0.1", "1", "1.2.3.0x4", "::1",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "b"}
	ports := []string{"", "+443", "-1", "0443", "65536", "0x1bb", "https", " 443", "443 ", "4_3", "٤٤٣"}
	var addrs []string
	for _, host := range hosts {
		addrs = append(addrs, host+":443")
	}
	for _, port := range ports {
		addrs = append(addrs, "relay.example:"+port)
	}
	for _, addr := range addrs {
		for _, name := range []string{"RELAY_ADDR", "RELAY_LISTEN"} {
			err := hostPort(name, addr, 0)
			if err == nil || !strings.HasPrefix(err.Error(), name+" is ") || !strings.Contains(err.Error(), "want ") {
				t.Errorf("%s=%q: %v", name, addr, err)
			}
		}
	}
}

func TestNumbersArePlainDecimal(t *testing.T) {
	for _, name := range []string{"WORKER_MAX_CONCURRENT", "EXECWORKER_NICE"} {
		for _, value := range []string{"010", "0x10", "1_0", "+4", " 4", "4 ", "4.0", "0b1", "-0", "٤", "99999999999999999999"} {
			if _, err := parseSettings(t, []string{name + "=" + value}, "serve"); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%q: %v", name, value, err)
			}
		}
		if _, err := parseSettings(t, []string{name + "=10"}, "serve"); err != nil {
			t.Error(err)
		}
	}
}

// A proxy that cannot be parsed would silently not be used.
func TestProxiesAreCheckedAtTheStart(t *testing.T) {
	tests := []struct{ https, no, addr, want string }{
		{"http://proxy:3128", "", "relay:1", ""},
		{"http://user:hunter2@proxy", "10.0.0.0/8, .example,[::1],*", "relay:1", ""},
		{"proxy:3128", "", "relay:1", ""},
		{"[::1]:3128", "", "relay:1", ""},
		{"http://user:hunter2@pro xy:1", "", "relay:1", "HTTPS_PROXY"},
		{"http://user:hunter2@proxy:port", "", "relay:1", "HTTPS_PROXY"},
		{"http://user:hunter2@proxy:99999", "", "relay:1", "HTTPS_PROXY"},
		{"http://hunter2%zz@proxy:1", "", "relay:1", "HTTPS_PROXY"},
		{"http://", "", "relay:1", "HTTPS_PROXY"},
		{"://", "", "localhost:1", "HTTPS_PROXY"},
		{"socks5://user:hunter2@proxy:1", "", "relay:1", "HTTPS_PROXY"},
		{"socks5://proxy:1", "relay", "relay:1", ""},
		{"socks5://proxy:1", "", "localhost:1", ""},
		{"http://proxy", "10.0.0.0/99", "relay:1", "NO_PROXY"},
		{"http://proxy", "a b", "relay:1", "NO_PROXY"},
		{"http://proxy", "a\x1b", "relay:1", "NO_PROXY"},
		{"", "10.0.0.0/99", "relay:1", ""}, // nobody asks for it
	}
	for _, tt := range tests {
		for _, lower := range []bool{false, true} {
			names := []string{"HTTPS_PROXY", "NO_PROXY"}
			if lower {
				names = []string{"https_proxy", "no_proxy"}
				tt.want = strings.ToLower(tt.want)
			}
			for _, name := range []string{"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
				t.Setenv(name, "")
			}
			for _, args := range []string{"serve", "exec true"} {
				_, err := parseSettings(t, []string{names[0] + "=" + tt.https, names[1] + "=" + tt.no, "RELAY_ADDR=" + tt.addr}, strings.Fields(args)...)
				switch {
				case tt.want == "" && err != nil:
					t.Errorf("%+v: %v", tt, err)
				case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2")):
					t.Errorf("%+v: %v", tt, err)
				}
			}
		}
	}
}

func TestTimesAreDurationsOrSeconds(t *testing.T) {
	for given, want := range map[string]time.Duration{"90": 90 * time.Second, "1m30s": 90 * time.Second, "0": 0, "250ms": 250 * time.Millisecond, "-1s": -time.Second} {
		var s span
		if err := s.UnmarshalText([]byte(given)); err != nil || time.Duration(s) != want {
			t.Errorf("%q is %v, %v; want %v", given, s, err, want)
		}
	}
	for _, given := range []string{"", "soon", "1 s", "1e3", "99999999999999999999", "١"} {
		var s span
		if err := s.UnmarshalText([]byte(given)); err == nil {
			t.Errorf("%q is %v", given, s)
		}
	}
}
