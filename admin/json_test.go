package admin

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// Nothing that drives a terminal is in the JSON, and nothing of it is lost.
func TestJSONIsASCIIAndTheSame(t *testing.T) {
	for _, s := range []string{"plain", "\x1b[2J", "\u009b2J", "\x7f", "\u202egpj", "\u200b", "ä€\U0001f600", "a\tb\n", `\"`, "<b>&"} {
		text, err := encode(map[string]string{"k": s}, "  ")
		if err != nil {
			t.Fatal(err)
		}
		if strings.IndexFunc(string(text), func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }) >= 0 {
			t.Errorf("%q came out as %q", s, text)
		}
		var back map[string]string
		if err := json.Unmarshal(text, &back); err != nil || back["k"] != s {
			t.Errorf("%q came back as %q, %v", s, back["k"], err)
		}
	}
}

func FuzzJSONIsASCIIAndTheSame(f *testing.F) {
	f.Add("\x1b\u009b\u202e\U0001f600\xff\x7f")
	f.Fuzz(func(t *testing.T, s string) {
		text, err := encode(s, "")
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal(text, &back); err != nil || utf8.ValidString(s) && back != s {
			t.Errorf("%q came back as %q, %v", s, back, err)
		}
		if i := strings.IndexFunc(strings.TrimSuffix(string(text), "\n"), func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
			t.Errorf("%q came out as %q", s, text)
		}
	})
}
