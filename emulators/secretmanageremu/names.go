package secretmanageremu

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	secretID      = regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`)
	projectNumber = regexp.MustCompile(`^[0-9]+$`)
)

// projectName returns projects/NUMBER for projects/ID or projects/NUMBER. Secret Manager always returns numbers, so a
// client must not compare names with what it sent.
func projectName(parent string) (string, error) {
	project, found := strings.CutPrefix(parent, "projects/")
	if !found || project == "" {
		return "", status.Errorf(codes.InvalidArgument, "The parent [%s] is not of the form projects/*.", parent)
	}
	if strings.Contains(project, "/") {
		return "", status.Errorf(codes.Unimplemented, "The emulator has no regional secrets: [%s].", parent)
	}
	if projectNumber.MatchString(project) {
		return parent, nil
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(project)) // a hash never fails
	return fmt.Sprintf("projects/%d", 100_000_000_000+hash.Sum64()%900_000_000_000), nil
}

// secretName returns the name under which a secret is stored.
func secretName(name string) (string, error) {
	parent, id, found := strings.Cut(name, "/secrets/")
	if !found || !secretID.MatchString(id) {
		return "", status.Errorf(codes.InvalidArgument, "The name [%s] is not of the form projects/*/secrets/*.", name)
	}
	project, err := projectName(parent)
	return project + "/secrets/" + id, err
}

// versionName returns the name of the secret and the id of the version: a number, an alias, or "latest".
func versionName(name string) (secret, version string, err error) {
	parent, version, found := strings.Cut(name, "/versions/")
	if !found || version == "" || strings.Contains(version, "/") {
		return "", "", status.Errorf(codes.InvalidArgument,
			"The name [%s] is not of the form projects/*/secrets/*/versions/*.", name)
	}
	secret, err = secretName(parent)
	return secret, version, err
}

// number returns the version number, or 0 if the id is an alias.
func number(version string) int64 {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil || n < 1 {
		return 0
	}
	return n
}
