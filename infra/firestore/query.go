package firestore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
)

// query is what the package asks of a collection. Its shapes must be served by an index: indexes.json declares those
// that Firestore doesn't keep by itself, and a test holds every query against it.
type query struct {
	collection string
	equal      []equality
	// until keeps the documents whose time in this field has come; documents with null there are left out.
	until string
	// since keeps the documents whose time in this field is now or later; documents with null there are left out.
	since string
	now   time.Time
	// from and before keep the documents that were created in between, the former included; zero sets no bound.
	from, before time.Time
	// only names the fields that are read; nil reads them all, and none but the id is empty.
	only  []string
	order []order
	// after is the place to go on from, a value for each order.
	after []any
	limit int
}

type equality struct{ field, value string }

type order struct {
	field     string
	direction gcp.Direction
}

// ask makes Firestore's form of a query.
func (c *Client) ask(q query) gcp.Query {
	asked := c.db.Collection(q.collection).Query
	for _, e := range q.equal {
		asked = asked.Where(e.field, "==", e.value)
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

// find runs a query.
func (c *Client) find(ctx context.Context, q query) ([]*gcp.DocumentSnapshot, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	snaps, err := c.ask(q).Documents(ctx).GetAll()
	if err != nil {
		return nil, failure("query", err)
	}
	return snaps, nil
}

// listing is a list that clients page through, newest first.
type listing[T any] struct {
	query query
	// tie is the field that orders items of the same time. It is unique, so that a page's end is one place.
	tie    string
	decode func(*gcp.DocumentSnapshot) (T, error)
	place  func(T) place
	// keep leaves out the items for which it is false; nil keeps all.
	keep func(T) bool
}

// place is where an item stands in a list.
type place struct {
	createdAt time.Time
	tie       string
}

// list reads a page. It asks for one item more than the page has, to know whether there is a next one. Pages go on from
// a place, not from a count, so that items created meanwhile neither hide nor double any.
func list[T any](ctx context.Context, c *Client, l listing[T], p page.Request) (page.Page[T], error) {
	limit := p.Limit
	if limit <= 0 {
		limit = page.DefaultLimit
	}
	limit = min(limit, page.MaxLimit)
	q := l.query
	q.order = []order{{"created_at", gcp.Desc}, {l.tie, gcp.Desc}}
	q.limit = limit + 1
	if p.Cursor != "" {
		from, ok := parseCursor(q.collection, p.Cursor)
		if !ok {
			return page.Page[T]{}, fault.New(fault.BadRequest, "invalid_cursor",
				"The cursor isn't one of this list. Start again without one.")
		}
		q.after = from.values()
	}
	items, err := collect(ctx, c, l, q)
	if err != nil {
		return page.Page[T]{}, err
	}
	result := page.Page[T]{Items: items[:min(len(items), limit)]}
	if len(items) > limit {
		result.Next = l.place(items[limit-1]).cursor(q.collection)
	}
	return result, nil
}

// collect finds as many items as the query's limit, if there are so many: it goes on where some were left out.
func collect[T any](ctx context.Context, c *Client, l listing[T], q query) ([]T, error) {
	items := make([]T, 0, q.limit)
	for {
		snaps, err := c.find(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, snap := range snaps {
			item, err := l.decode(snap)
			if err != nil {
				return nil, err
			}
			q.after = l.place(item).values()
			if l.keep == nil || l.keep(item) {
				items = append(items, item)
			}
		}
		if len(items) >= q.limit || len(snaps) < q.limit {
			return items, nil
		}
	}
}

// values are the place's values in the order of a list.
func (p place) values() []any { return []any{p.createdAt, p.tie} }

const (
	// cursorVersion begins every cursor, so that their form can change.
	cursorVersion = "1"
	maxCursor     = 512
)

// cursor makes a place opaque. It is bound to its list, not to the filters, and holds nothing that its reader may not
// see. The checksum tells a cursor that was cut or mistyped, which would silently lead to another place; nobody is kept
// from making one up.
func (p place) cursor(collection string) string {
	text := strings.Join([]string{cursorVersion, collection, strconv.FormatInt(p.createdAt.UnixNano(), 10), p.tie}, " ")
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32([]byte(text),
		crc32.ChecksumIEEE([]byte(text))))
}

func parseCursor(collection, cursor string) (place, bool) {
	if len(cursor) > maxCursor {
		return place{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < crc32.Size {
		return place{}, false
	}
	text, sum := raw[:len(raw)-crc32.Size], raw[len(raw)-crc32.Size:]
	parts := strings.SplitN(string(text), " ", 4)
	if crc32.ChecksumIEEE(text) != binary.BigEndian.Uint32(sum) || len(parts) != 4 {
		return place{}, false
	}
	nanos, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || nanos < 0 || parts[0] != cursorVersion || parts[1] != collection || !validID(parts[3]) {
		return place{}, false
	}
	return place{time.Unix(0, nanos).UTC(), parts[3]}, true
}
