package firestore

import (
	"context"
	_ "embed" // for indexes.json
	"iter"
	"slices"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
)

//go:embed indexes.json
var indexesJSON []byte

// Indexes is the index file: the composite indexes that the package's queries need, and the fields that need no index.
// Terraform deploys it, and the embedded emulator enforces it.
func Indexes() []byte { return slices.Clone(indexesJSON) }

// query is a query of a collection. An index must serve it: indexes.json declares the indexes that Firestore doesn't
// maintain automatically, and the tests check every query that they send against it.
type query struct {
	collection string
	equal      []equality
	// contains names an array that must contain a value.
	contains equality
	// until names a field that must be at or before now, and since one that must be at or after now. Documents with
	// null in the field don't match.
	until, since string
	now          time.Time
	// Documents must have been created at or after from, and before before; zero sets no bound.
	from, before time.Time
	// only names the fields to read. Nil means all fields; empty means the id only.
	only  []string
	order []order
	// after is the position to continue from, with one value for each order.
	after []any
	limit int
}

type equality struct{ field, value string }

type order struct {
	field     string
	direction gcp.Direction
}

// firestoreQuery translates a query.
func (c *Client) firestoreQuery(q query) gcp.Query {
	asked := c.collection(q.collection).Query
	for _, e := range q.equal {
		asked = asked.Where(e.field, "==", e.value)
	}
	if q.contains.value != "" {
		asked = asked.Where(q.contains.field, "array-contains", q.contains.value)
	}
	if q.until != "" {
		asked = asked.Where(q.until, "<=", q.now)
	}
	if q.since != "" {
		asked = asked.Where(q.since, ">=", q.now)
	}
	if !q.from.IsZero() {
		asked = asked.Where("created_at", ">=", q.from)
	}
	if !q.before.IsZero() {
		asked = asked.Where("created_at", "<", q.before)
	}
	if q.only != nil {
		asked = asked.Select(q.only...)
	}
	for _, o := range q.order {
		asked = asked.OrderBy(o.field, o.direction)
	}
	if q.after != nil {
		asked = asked.StartAfter(q.after...)
	}
	return asked.Limit(q.limit)
}

func (c *Client) runQuery(ctx context.Context, q query) ([]*gcp.DocumentSnapshot, error) {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	snaps, err := c.firestoreQuery(q).Documents(ctx).GetAll()
	if err != nil {
		return nil, faultOf("query", err)
	}
	return snaps, nil
}

// pages iterates over the records that match a query, which it reads page by page. It reports records that can't be
// decoded and leaves them out.
func pages[T any](
	ctx context.Context, c *Client, q query, decode func(*gcp.DocumentSnapshot) (T, error),
	position func(*gcp.DocumentSnapshot) []any,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for q := q; ; {
			snaps, err := c.runQuery(ctx, q)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, snap := range snaps {
				record, err := decode(snap)
				if err != nil {
					reportUnreadable(ctx, snap.Ref.Parent.ID, snap.Ref.ID, err)
					continue
				}
				if !yield(record, nil) {
					return
				}
			}
			if len(snaps) < q.limit {
				return
			}
			q.after = position(snaps[len(snaps)-1])
		}
	}
}

// duePage bounds what dueIDs holds: a webhook whose receiver is down can have a large record.
const duePage = 50

// dueIDs returns the ids of at most limit records that are due by the field that q.until names, the longest overdue
// first. It leaves out records that can't be decoded: no worker can make them due later, so they would hide the others.
func dueIDs[T any](
	ctx context.Context, c *Client, q query, limit int, decode func(*gcp.DocumentSnapshot) (T, error),
) ([]string, error) {
	q.order, q.limit = []order{{q.until, gcp.Asc}, {gcp.DocumentID, gcp.Asc}}, min(limit, duePage)
	readable := func(snap *gcp.DocumentSnapshot) (string, error) {
		_, err := decode(snap)
		return snap.Ref.ID, err
	}
	position := func(snap *gcp.DocumentSnapshot) []any { return []any{snap.Data()[q.until], snap.Ref.ID} }
	var due []string
	for id, err := range pages(ctx, c, q, readable, position) {
		if err != nil {
			return nil, err
		}
		if due = append(due, id); len(due) == limit {
			break
		}
	}
	return due, nil
}

// eachDocument visits all documents that match a query, ordered by id. It reads q.limit documents in one call.
func (c *Client) eachDocument(ctx context.Context, q query, visit func(*gcp.DocumentSnapshot) error) error {
	q.order = []order{{gcp.DocumentID, gcp.Asc}}
	same := func(snap *gcp.DocumentSnapshot) (*gcp.DocumentSnapshot, error) { return snap, nil }
	byID := func(snap *gcp.DocumentSnapshot) []any { return []any{snap.Ref.ID} }
	for snap, err := range pages(ctx, c, q, same, byID) {
		if err == nil {
			err = visit(snap)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func documentIDs(snaps []*gcp.DocumentSnapshot) []string {
	ids := make([]string, len(snaps))
	for i, snap := range snaps {
		ids[i] = snap.Ref.ID
	}
	return ids
}

// listing is a list that clients page through, newest first.
type listing[T any] struct {
	query query
	// tieBreaker is the field that orders items of the same time. It must be unique, so that positions are.
	tieBreaker string
	decode     func(*gcp.DocumentSnapshot) (T, error)
	position   func(T) position
	// include is false for items that are left out. Nil includes all.
	include func(T) bool
}

// listPage reads a page. It reads one more item than the page has, to know whether there is a next page. A page starts
// at a position, not at a count, so that items created in between neither hide items nor repeat them.
func listPage[T any](ctx context.Context, c *Client, l listing[T], p page.Request) (page.Page[T], error) {
	limit := p.Limit
	if limit <= 0 {
		limit = page.DefaultLimit
	}
	limit = min(limit, page.MaxLimit)
	q := l.query
	q.order = []order{{"created_at", gcp.Desc}, {l.tieBreaker, gcp.Desc}}
	q.limit = limit + 1
	if p.Cursor != "" {
		from, ok := parseCursor(q.collection, p.Cursor)
		if !ok {
			return page.Page[T]{}, fault.New(fault.BadRequest, "invalid_cursor",
				"The cursor does not belong to this list. Start again without a cursor.")
		}
		q.after = from.values()
	}
	items, err := collect(ctx, c, l, q)
	if err != nil {
		return page.Page[T]{}, err
	}
	result := page.Page[T]{Items: items[:min(len(items), limit)]}
	if len(items) > limit {
		result.Next = l.position(items[limit-1]).cursor(q.collection)
	}
	return result, nil
}

// collect reads items up to the query's limit. If some are left out, it reads more. It reports items that can't be
// decoded and leaves them out, so that they don't hide the others.
func collect[T any](ctx context.Context, c *Client, l listing[T], q query) ([]T, error) {
	items := make([]T, 0, q.limit)
	for {
		snaps, err := c.runQuery(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, snap := range snaps {
			q.after = l.valuesOf(snap)
			item, err := l.decode(snap)
			if err != nil {
				reportUnreadable(ctx, snap.Ref.Parent.ID, snap.Ref.ID, err)
				continue
			}
			if l.include == nil || l.include(item) {
				items = append(items, item)
			}
		}
		if len(items) >= q.limit || len(snaps) < q.limit {
			return items, nil
		}
	}
}

// valuesOf are the values of a document in the order of the list, even if they are of other types than they should be.
func (l listing[T]) valuesOf(snap *gcp.DocumentSnapshot) []any {
	doc := snap.Data()
	if l.tieBreaker == gcp.DocumentID {
		return []any{doc["created_at"], snap.Ref.ID}
	}
	return []any{doc["created_at"], doc[l.tieBreaker]}
}
