package daemon

import (
	"encoding/hex"
	"hash"
)

// outputHash is the SHA-256 of one stream, of what is cut too. The zero value,
// which is what there is unless the Config asks for hashes, takes nothing and
// has no sum. It is written by the stream's reader and read once that has ended.
type outputHash struct{ hash.Hash }

func (h outputHash) write(p []byte) {
	if h.Hash != nil {
		h.Hash.Write(p) // never fails (hash.Hash)
	}
}

// sum is in hex; empty if nobody asked.
func (h outputHash) sum() string {
	if h.Hash == nil {
		return ""
	}
	return hex.EncodeToString(h.Hash.Sum(nil))
}
