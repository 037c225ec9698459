package admin

import (
	"strings"
	"testing"
)

func TestCommandName(t *testing.T) {
	for command, want := range map[string]string{
		"make":                                   "make",
		"  make test":                            "make",
		"/usr/bin/python3 -c 'x'":                "python3",
		"./run.sh; ls":                           "run.sh",
		"ls|wc":                                  "ls",
		"ls -l | wc":                             "ls",
		"cd /src && make":                        "make",
		"cd /src; make":                          "make",
		"cd '/my dir' && cd x\nmake":             "make",
		"cd /src":                                "cd",
		"cd /src || exit":                        "cd",
		"env A=1 B='2 3' make":                   "make",
		"A=1 B=\"2 3\" make":                     "make",
		"A=1; make":                              "make",
		"exec node server.js":                    "node",
		"# build it\n\n make all":                "make",
		"sleep 5 &":                              "sleep",
		"echo hi >out":                           "echo",
		"":                                       "other",
		"   \n":                                  "other",
		"#":                                      "other",
		"A=hunter2":                              "other",
		"$SECRET":                                "other",
		"-x":                                     "other",
		"'hunter 2'":                             "other",
		"ls>hunter2":                             "other",
		"(cd x; ls)":                             "other",
		`cd "a && hunter2" && ls`:                "ls",
		`cd "a && hunter2`:                       "cd",
		"X=$(cat /run/hunter2 y) ls":             "other",
		"X=`cat /run/hunter2 y` ls":              "other",
		`A="$(echo "x hunter2 y")" ls`:           "other",
		"X=a\\ hunter2 ls":                       "other",
		"cd $(find hunter2 && echo hunter2) &&l": "cd",
		"\x1b[2J":                                "other",
		strings.Repeat("x", 33):                  "other",
		"a\u202eb":                               "other",
	} {
		if got := commandName(command); got != want {
			t.Errorf("commandName(%q) is %q, want %q", command, got, want)
		}
	}
}

// Whatever a command is, its name is a plain word, and an end is found.
func FuzzCommandName(f *testing.F) {
	for _, seed := range []string{"cd a && b", "A='1 2' b", "env env env", "#\n#", "cd;cd;cd", "A= &&", "\xff\x00", "cd '"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, command string) {
		if name := commandName(command); !plainName.MatchString(name) {
			t.Errorf("commandName(%q) is %q", command, name)
		}
	})
}

// What a terminal gets is printable ASCII in one line, of the length asked for.
func FuzzQuoted(f *testing.F) {
	for _, seed := range []string{"", "plain", "\x1b[2J", "a\nb\tc", "\u202e\u009b", "\U0001f600\U0001f600", `\\\\\\\\`, "\xff\xfe", strings.Repeat("ä", 50)} {
		f.Add(seed, 20)
	}
	f.Add("00000000000", 2)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = 10 + most&0xff // at least what the quotes and the dots need
		for _, got := range []string{quoted(s, most), ascii(s)} {
			if strings.IndexFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
				t.Errorf("%q came out as %q", s, got)
			}
		}
		if got := quoted(s, most); len(got) > most || got[0] != '"' || got[len(got)-1] != '"' {
			t.Errorf("quoted(%q, %d) is %s", s, most, got)
		}
	})
}

func TestACutNeverFallsIntoAnEscape(t *testing.T) {
	whole := `"` + strings.Repeat(`\U0001f600`, 9) + `"`
	for most := 14; most < len(whole); most++ {
		got := strings.TrimSuffix(quoted(strings.Repeat("\U0001f600", 9), most), `..."`)
		if (len(got)-1)%10 != 0 || !strings.HasPrefix(whole, got) {
			t.Errorf("cut at %d: %s", most, got)
		}
	}
}
