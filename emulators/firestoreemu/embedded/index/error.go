package index

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
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

// encode returns the index in the encoding of the console link.
func (c Composite) encode(database string) string {
	index := &adminpb.Index{
		Name:       fmt.Sprintf("%s/collectionGroups/%s/indexes/_", database, c.CollectionGroup),
		QueryScope: adminpb.Index_COLLECTION,
	}
	for _, f := range c.Fields {
		field := &adminpb.Index_IndexField{FieldPath: f.FieldPath}
		if f.ArrayConfig != "" {
			field.ValueMode = &adminpb.Index_IndexField_ArrayConfig_{ArrayConfig: adminpb.Index_IndexField_CONTAINS}
		} else {
			field.ValueMode = &adminpb.Index_IndexField_Order_{Order: adminpb.Index_IndexField_Order(adminpb.Index_IndexField_Order_value[f.Order])}
		}
		index.Fields = append(index.Fields, field)
	}
	b, err := proto.Marshal(index)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}
