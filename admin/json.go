package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// encode is v as JSON in ASCII, with a newline at its end; indented unless indent
// is empty. Nothing is lost: what is not printable ASCII is written as \uXXXX, so
// that a command or the name of a process cannot drive the terminal of whoever
// asked with curl. encoding/json alone leaves DEL, the C1 controls (U+009B is the
// CSI that ESC [ stands for) and the marks that turn the direction of text as
// they are. Bytes that are not UTF-8 come out as \ufffd.
func encode(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return asciiJSON(out.Bytes()), nil
}

// asciiJSON escapes what is not ASCII. In JSON that can stand inside of strings
// only, where an escape means the same.
func asciiJSON(text []byte) []byte {
	odd := bytes.IndexFunc(text, func(r rune) bool { return r >= 0x7f })
	if odd < 0 {
		return text
	}
	out := append(make([]byte, 0, len(text)+len(text)/8), text[:odd]...)
	for i := odd; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += size
	}
	return out
}
