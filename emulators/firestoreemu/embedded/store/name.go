package store

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxID is the maximum length of a collection or document id in bytes.
const maxID = 1500

var reservedID = regexp.MustCompile(`^__.*__$`)

// documents ends the database part of a document name.
const documents = "/documents"

// CheckDatabase returns an error if name does not have the form projects/P/databases/D.
func CheckDatabase(name string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[0] != "projects" || parts[1] == "" || parts[2] != "databases" || parts[3] == "" {
		return fmt.Errorf("%q is not a database: want projects/PROJECT/databases/DATABASE", name)
	}
	return nil
}

// CheckDocument returns an error if name is not the name of a document in the database.
func CheckDocument(database, name string) error {
	ids, err := ids(database, name)
	switch {
	case err != nil:
		return err
	case len(ids) == 0 || len(ids)%2 != 0:
		return fmt.Errorf("document name %q: want pairs of a collection and a document below %s%s", name, database,
			documents)
	}
	return nil
}

// CheckParent returns an error if name cannot be the parent of a collection: it must be a document or the database's
// root.
func CheckParent(database, name string) error {
	ids, err := ids(database, name)
	if err == nil && len(ids)%2 != 0 {
		err = fmt.Errorf("parent %q: want a document, or %s%s", name, database, documents)
	}
	return err
}

// DatabaseOf returns the database of a document or parent.
func DatabaseOf(name string) (string, error) {
	database, _, found := strings.Cut(name, documents)
	if !found {
		return "", fmt.Errorf("%q is not a document name: want projects/PROJECT/databases/DATABASE%s and ids", name,
			documents)
	}
	return database, CheckDatabase(database)
}

// CheckID returns an error if id cannot be the id of a collection or document.
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("an id can't be empty")
	case id == "." || id == "..":
		return fmt.Errorf("id %q: . and .. can't be ids", id)
	case reservedID.MatchString(id):
		return fmt.Errorf("id %q: ids that begin and end with __ are reserved", id)
	case len(id) > maxID:
		return fmt.Errorf("an id has %d bytes, more than %d", len(id), maxID)
	case !utf8.ValidString(id):
		return fmt.Errorf("id %q is not UTF-8", id)
	default:
		return nil
	}
}

// ids returns the ids in a name, below the root of the database.
func ids(database, name string) ([]string, error) {
	rest, ok := strings.CutPrefix(name, database+documents)
	if !ok {
		return nil, fmt.Errorf("%q is not in the database %s", name, database)
	}
	if rest == "" {
		return nil, nil
	}
	if rest[0] != '/' {
		return nil, fmt.Errorf("%q is not in the database %s", name, database)
	}
	ids := strings.Split(rest[1:], "/")
	for _, id := range ids {
		if err := CheckID(id); err != nil {
			return nil, fmt.Errorf("name %q: %w", name, err)
		}
	}
	return ids, nil
}

// collectionOf returns the name of a document's collection.
func collectionOf(name string) string { return name[:strings.LastIndexByte(name, '/')] }
