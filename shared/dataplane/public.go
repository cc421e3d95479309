package dataplane

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// PlainPath returns the path of a request as it was sent, without the query. It fails for a path that a server could
// read as another one: whoever compares paths must know that the container gets exactly the one that was compared.
func PlainPath(req *http.Request) (sent string, ok bool) {
	sent, _, _ = strings.Cut(req.RequestURI, "?")
	if sent != req.URL.EscapedPath() || strings.ContainsAny(sent, "%;") || strings.Contains(sent, "//") {
		return "", false
	}
	for segment := range strings.SplitSeq(sent, "/") {
		if segment == "." || segment == ".." {
			return "", false
		}
	}
	return sent, true
}

// CoversPath reports whether a public path stands for a plain path: it is the same, or ends with a slash and the plain
// path is below it.
func CoversPath(public, plain string) bool {
	return plain == public || strings.HasSuffix(public, "/") && strings.HasPrefix(plain, public)
}

// The labels of an agent's Service with its public paths. A label's value has no room for paths: it has the beginnings
// of their digests. Two paths may have the same one; what the router takes for public, the front looks at again.
const (
	labelPublicPaths = "agents.example/public-paths-"
	pathDigits       = 8
	pathsPerLabel    = 7 // 63 characters with the dots
	// maxPublicLabels is for the paths of an image and those of an agent.
	maxPublicLabels = 6
)

// PublicPathLabels returns the labels of an agent whose public paths these are.
func PublicPathLabels(paths []string) map[string]string {
	labels := map[string]string{}
	digests := make([]string, 0, len(paths))
	for _, p := range paths {
		digests = append(digests, pathDigest(p))
	}
	slices.Sort(digests)
	for part := range slices.Chunk(slices.Compact(digests), pathsPerLabel) {
		labels[labelPublicPaths+strconv.Itoa(len(labels))] = strings.Join(part, ".")
	}
	return labels
}

// PublicLabelNames returns the names of the labels that PublicPathLabels may return.
func PublicLabelNames() []string {
	names := make([]string, maxPublicLabels)
	for i := range names {
		names[i] = labelPublicPaths + strconv.Itoa(i)
	}
	return names
}

// PublicSet has the public paths of an agent as its labels have them.
type PublicSet string

// PublicSetOf returns the set that labels have.
func PublicSetOf(labels map[string]string) PublicSet {
	set := ""
	for i := range maxPublicLabels {
		switch value := labels[labelPublicPaths+strconv.Itoa(i)]; {
		case value == "":
			return PublicSet(set)
		case set == "":
			set = value
		default:
			set += "." + value
		}
	}
	return PublicSet(set)
}

// Has reports whether a request may be for one of the paths. It is true for all that are.
func (s PublicSet) Has(req *http.Request) bool {
	if s == "" {
		return false
	}
	sent, ok := PlainPath(req)
	if !ok {
		return false
	}
	if s.hasDigest(sent) {
		return true
	}
	for i := 1; i < min(len(sent), MaxPublicPathBytes); i++ {
		if sent[i] == '/' && s.hasDigest(sent[:i+1]) {
			return true
		}
	}
	return false
}

func (s PublicSet) hasDigest(path string) bool {
	if len(path) > MaxPublicPathBytes {
		return false
	}
	want := pathDigest(path)
	for i := 0; i+pathDigits <= len(s); i += pathDigits + 1 {
		if string(s[i:i+pathDigits]) == want {
			return true
		}
	}
	return false
}

func pathDigest(path string) string {
	digest := sha256.Sum256([]byte(path))
	return hex.EncodeToString(digest[:pathDigits/2])
}
