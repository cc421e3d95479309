package index

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// defaultDatabase is the database that console links omit.
const defaultDatabase = "(default)"

// Error returns Firestore's error for a missing index, with its link to create one, plus the line that declares the
// index. database is projects/P/databases/D.
func (c Composite) Error(database string) error {
	if len(c.Fields) == 1 {
		f := c.Fields[0]
		return status.Errorf(codes.FailedPrecondition,
			"The query requires a %s_%s index for collection %s and field %s. That index is switched off by a field "+
				"override of the index file.",
			c.QueryScope, strings.TrimSuffix(f.Order+f.ArrayConfig, "ENDING"), c.CollectionGroup, f.FieldPath)
	}
	parts := strings.Split(database, "/")
	where := "/databases/" + parts[3]
	if parts[3] == defaultDatabase {
		where = ""
	}
	link := fmt.Sprintf("https://console.firebase.google.com/v1/r/project/%s/firestore%s/indexes?create_composite=%s",
		parts[1], where, c.encode(database))
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return status.Errorf(codes.FailedPrecondition,
		"The query requires an index. You can create it here: %s\nThe index file lacks: %s", link, line)
}

// encode returns the index in the encoding of the console link: google.firestore.admin.v1.Index. The package of that
// message and what it imports would be compiled at the first start for this link alone.
func (c Composite) encode(database string) string {
	const name, queryScope, fields, collection = 1, 2, 3, 1
	b := appendText(nil, name, fmt.Sprintf("%s/collectionGroups/%s/indexes/_", database, c.CollectionGroup))
	b = appendEnum(b, queryScope, collection)
	for _, f := range c.Fields {
		b = appendText(b, fields, string(f.encode()))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// encode returns a field of an index.
func (f Field) encode() []byte {
	const fieldPath, order, arrayConfig, ascending, descending, contains = 1, 2, 3, 1, 2, 1
	b := appendText(nil, fieldPath, f.FieldPath)
	switch {
	case f.ArrayConfig != "":
		return appendEnum(b, arrayConfig, contains)
	case f.Order == "DESCENDING":
		return appendEnum(b, order, descending)
	}
	return appendEnum(b, order, ascending)
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

func appendEnum(b []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), value)
}
