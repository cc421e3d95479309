package store

import (
	"errors"
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/firestoreemu/embedded/value"
)

// change is a parsed write.
type change struct {
	name    string
	deletes bool
	fields  map[string]*firestorepb.Value
	// masked reports whether only the fields in mask are written.
	masked     bool
	mask       []value.Path
	transforms []transform
	condition  *firestorepb.Precondition
}

type transform struct {
	path value.Path
	how  *firestorepb.DocumentTransform_FieldTransform
}

// parseWrites parses the writes of a commit and checks what does not depend on stored data. Errors: InvalidArgument,
// Unimplemented.
func (d *Database) parseWrites(writes []*firestorepb.Write) ([]change, error) {
	if len(writes) > MaxWrites {
		return nil, status.Errorf(codes.InvalidArgument, "maximum %d writes allowed per request", MaxWrites)
	}
	changes := make([]change, len(writes))
	for i, w := range writes {
		var err error
		if changes[i], err = d.parseWrite(w); err != nil {
			return nil, invalid(err)
		}
	}
	if err := checkRepeatedDocuments(changes); err != nil {
		return nil, invalid(err)
	}
	return changes, nil
}

func (d *Database) parseWrite(w *firestorepb.Write) (change, error) {
	c := change{condition: w.GetCurrentDocument()}
	switch op := w.GetOperation().(type) {
	case *firestorepb.Write_Delete:
		c.name, c.deletes = op.Delete, true
		return c, CheckDocument(d.name, c.name)
	case *firestorepb.Write_Update:
		c.name = op.Update.GetName()
	case nil:
		return c, errors.New("a write has no operation")
	default:
		return c, fmt.Errorf("a write of the kind %T: %w", op, value.ErrUnimplemented)
	}
	if err := CheckDocument(d.name, c.name); err != nil {
		return c, err
	}
	var err error
	if c.fields, err = value.Storable(w.GetUpdate().GetFields()); err != nil {
		return c, fmt.Errorf("document %s: %w", c.name, err)
	}
	c.masked = w.GetUpdateMask() != nil
	if c.mask, err = parseMask(w.GetUpdateMask()); err != nil {
		return c, err
	}
	for _, t := range w.GetUpdateTransforms() {
		path, err := value.ParsePath(t.GetFieldPath())
		if err == nil {
			err = value.CheckTransform(t)
		}
		if err != nil {
			return c, fmt.Errorf("document %s: transform of %s: %w", c.name, t.GetFieldPath(), err)
		}
		c.transforms = append(c.transforms, transform{path, t})
	}
	return c, nil
}

// checkRepeatedDocuments refuses a precondition on a document that is written more than once. The service has special
// rules for this.
func checkRepeatedDocuments(changes []change) error {
	conditional := map[string]bool{}
	for _, c := range changes {
		before, twice := conditional[c.name]
		if twice && (before || c.condition != nil) {
			return fmt.Errorf("a precondition on one of several writes of %s: %w", c.name, value.ErrUnimplemented)
		}
		conditional[c.name] = c.condition != nil
	}
	return nil
}

func parseMask(mask *firestorepb.DocumentMask) ([]value.Path, error) {
	var paths []value.Path
	for _, text := range mask.GetFieldPaths() {
		p, err := value.ParsePath(text)
		if err != nil {
			return nil, err
		}
		paths = append(paths, p)
	}
	return paths, nil
}

// checkPrecondition checks the precondition against a document.
func (c change) checkPrecondition(document *firestorepb.Document) error {
	switch want := c.condition.GetConditionType().(type) {
	case *firestorepb.Precondition_Exists:
		switch {
		case want.Exists && document == nil:
			return status.Errorf(codes.NotFound, "No document to update: %s", c.name)
		case !want.Exists && document != nil:
			return status.Errorf(codes.AlreadyExists, "Document already exists: %s", c.name)
		}
	case *firestorepb.Precondition_UpdateTime:
		if stored := document.GetUpdateTime().AsTime(); document == nil || !stored.Equal(want.UpdateTime.AsTime()) {
			return status.Errorf(codes.FailedPrecondition,
				"the stored version (%d) does not match the required base version (%d)",
				stored.UnixMicro(), want.UpdateTime.AsTime().UnixMicro())
		}
	}
	return nil
}

// invalid returns the status for a write that cannot be applied.
func invalid(err error) error {
	if errors.Is(err, value.ErrUnimplemented) {
		return status.Error(codes.Unimplemented, err.Error())
	}
	return status.Error(codes.InvalidArgument, err.Error())
}
