package devrelay

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"google.golang.org/grpc/metadata"
)

// bears says whether the call carries "authorization: Bearer <token>". Digests
// are compared, so that the time tells neither the token nor its length.
func bears(ctx context.Context, token string) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get("authorization")
	if token == "" || len(values) != 1 {
		return false
	}
	given, isBearer := strings.CutPrefix(values[0], "Bearer ")
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && isBearer
}
