package front

import (
	"path"
	"strings"

	"agents.example/controlplane/shared/dataplane"
)

// isAPI reports whether a path belongs to the API, which is /v1 and what is below it. Servers read some paths
// differently, such as /v1/../admin, //v1 and /V1. They are ambiguous and must be refused: whoever holds one credential
// must not reach with it what the container serves to the other.
func isAPI(decoded string) (api, ambiguous bool) {
	api = dataplane.IsAPIPath(decoded)
	return api, api != dataplane.IsAPIPath(normalize(decoded))
}

// normalize returns the path as the most liberal server may read it: the case of letters does not matter, backslashes
// separate segments, parameters after a semicolon are not part of a segment, and dot segments and empty segments are
// resolved.
func normalize(p string) string {
	segments := strings.Split(strings.ReplaceAll(strings.ToLower(p), `\`, "/"), "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return path.Clean("/" + strings.Join(segments, "/"))
}
