package store

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxID is the most bytes that a collection's or a document's id has.
const maxID = 1500

var reservedID = regexp.MustCompile(`^__.*__$`)

// documents ends the part of a name that is the database's.
const documents = "/documents"

// CheckDatabase tells what is wrong with a database's name, projects/P/databases/D.
func CheckDatabase(name string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[0] != "projects" || parts[1] == "" || parts[2] != "databases" || parts[3] == "" {
		return fmt.Errorf("%q is no database: want projects/PROJECT/databases/DATABASE", name)
	}
	return nil
}

// CheckDocument tells what is wrong with the name of a document of a database.
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

// CheckParent tells what is wrong with the parent of a collection: the database's documents, or a document.
func CheckParent(database, name string) error {
	ids, err := ids(database, name)
	if err == nil && len(ids)%2 != 0 {
		err = fmt.Errorf("parent %q: want a document, or %s%s", name, database, documents)
	}
	return err
}

// DatabaseOf is the database of a document or a parent.
func DatabaseOf(name string) (string, error) {
	database, _, found := strings.Cut(name, documents)
	if !found {
		return "", fmt.Errorf("%q is no name of a document: want projects/PROJECT/databases/DATABASE%s and ids", name,
			documents)
	}
	return database, CheckDatabase(database)
}

// CheckID tells what is wrong with the id of a collection or a document.
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
		return fmt.Errorf("id %q is no UTF-8", id)
	default:
		return nil
	}
}

// ids are the ids below the root of the database.
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

// collectionOf is the name of a document's collection.
func collectionOf(name string) string { return name[:strings.LastIndexByte(name, '/')] }
