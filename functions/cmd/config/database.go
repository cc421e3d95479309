package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"sync"
)

// readableLabel limits the readable part of DatabaseLabel: with the hash it fits the 63 characters of a label.
const readableLabel = 50

var notInLabels = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^a-z0-9]+`) })

// DatabaseLabel identifies the Firestore database in labels of Kubernetes and Google Cloud, which allow no slashes and
// parentheses. The hash keeps names apart that differ only in such characters. Example: "prod-agents-3f2a9c01".
func (c Common) DatabaseLabel() string {
	name := c.ProjectID + "/" + cmp.Or(c.Database, "(default)")
	readable := strings.Trim(notInLabels().ReplaceAllString(strings.ToLower(name), "-"), "-")
	sum := sha256.Sum256([]byte(name))
	return readable[:min(len(readable), readableLabel)] + "-" + hex.EncodeToString(sum[:4])
}
