package clients

import (
	"context"
	"fmt"
	"strings"

	"agents.example/controlplane/shared/clientrelease"
)

// An index of Python packages is a page with a link to each project, and for each project a page with a link to each
// file (PEP 503).

const pythonHead = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Python packages</title></head>
<body>
`

const pythonFoot = "</body>\n</html>\n"

func pythonIndex() []byte {
	return []byte(pythonHead + fmt.Sprintf("<a href=\"%s/\">%[1]s</a>\n", clientrelease.Python) + pythonFoot)
}

// indexedVersions bounds how many versions the page of a project lists: the newest. Each costs a reading of the bucket
// at an instance's first request. Lock files with an older version and the address of its file stay valid.
const indexedVersions = 50

// pythonVersions lists the files of all versions.
func (s *service) pythonVersions(ctx context.Context) (Download, error) {
	versions, err := s.catalog.list(ctx)
	if err != nil {
		return Download{}, err
	}
	versions = versions[max(0, len(versions)-indexedVersions):]
	var links strings.Builder
	for _, v := range versions {
		r, err := s.catalog.release(ctx, v)
		if err != nil {
			return Download{}, err
		}
		f, ok := r.File(clientrelease.Wheel(v))
		if !ok {
			continue
		}
		fragment := ""
		if f.SHA256 != "" {
			fragment = "#sha256=" + f.SHA256
		}
		fmt.Fprintf(&links, "<a href=\"../../%s%s\" data-requires-python=\"&gt;=3.10\">%s</a>\n", f.Name, fragment,
			f.Name)
	}
	return content(htmlMedia, []byte(pythonHead+links.String()+pythonFoot)), nil
}
