// Package seal commits to the entries of an audit log with a chain of seals, and verifies a log against its seals. It
// does not store entries or seals, and it does not decide who may read them.
//
// A seal holds the hashes of up to MaxLeaves entries of one organization, the root of a Merkle tree over them, and the
// hash of the seal before it. So a changed, missing, added or moved entry, and a changed or missing seal, show against
// the newest seal's hash alone. A Sealer makes seals some time after the entries; see Settling.
//
// Entries do not hold the hash of the entry before them, because every commit of an organization would then write one
// document. Firestore sustains about one write a second to a document, and refused calls, which write entries too,
// would wait for each other.
//
// # What this proves
//
// Seals show that a log agrees with what was sealed. They do not show that an entry was true, that a call was recorded
// at all, or that an entry was not changed before it was sealed. Whoever can write the database can write other entries
// with other seals. Against that, keep a seal's sequence and hash outside of it: they agree only with the log that they
// were made of; see Anchor.
package seal

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
)

// MaxLeaves bounds the entries of a seal. A stored leaf takes about 200 bytes, and Firestore limits a document to
// 1 MiB.
const MaxLeaves = 1000

// Entry is an entry of the log as a seal sees it.
type Entry struct {
	ID        string
	CreatedAt time.Time
	// ExpiresAt and WrittenAt are not in an export. WrittenAt is the time of the entry's last write, by the clock of
	// the store.
	ExpiresAt time.Time
	WrittenAt time.Time
	// JSON is the entry as the export shows it.
	JSON []byte
}

// Leaf commits to one entry. Its fields are in the order of their names; see canonicalJSON.
type Leaf struct {
	CreatedAt time.Time `json:"created_at" jsonschema:"The time of the entry."`
	ExpiresAt time.Time `json:"expires_at" jsonschema:"The end of the entry's retention. Later the entry is not in the log."`
	Format    int       `json:"format" jsonschema:"The number of the list of fields that the hash covers."`
	Hash      string    `json:"hash" jsonschema:"The SHA-256 of these fields of the entry as canonical JSON (RFC 8785), in hexadecimal digits."`
	ID        string    `json:"id" jsonschema:"The id of the entry."`
}

// Seal commits to a batch of entries and to the seal before it.
type Seal struct {
	OrganizationID string `json:"organization_id" jsonschema:"The organization whose log it seals."`
	// Sequence counts the seals of the organization from 1.
	Sequence int64 `json:"sequence" jsonschema:"Counts the seals of the organization from 1."`
	// SealedFrom is the SealedUntil of the seal before.
	SealedFrom *time.Time `json:"sealed_from" jsonschema:"The sealed_until of the seal before; null for the first."`
	// SealedUntil never decreases. An entry with an earlier time that is not in this or an earlier seal may only be
	// Lateness older.
	SealedUntil time.Time `json:"sealed_until" jsonschema:"This seal and those before it have all entries until this time, except for those of the last half hour before it that were written late."`
	// ExpiresAt is the longest retention of this seal's entries and of the seals before it, so that seals expire in
	// their order.
	ExpiresAt time.Time `json:"expires_at" jsonschema:"The time from which the seal is not shown: when all entries of this seal and of those before it have expired."`
	// PreviousHash is NoHash for the first seal.
	PreviousHash string `json:"previous_hash" jsonschema:"The hash of the seal before; 64 zeros for the first."`
	// PreviousExpiresAt tells whether the seal before may be gone.
	PreviousExpiresAt *time.Time `json:"previous_expires_at" jsonschema:"The expires_at of the seal before; null for the first."`
	Count             int        `json:"count" jsonschema:"The number of leaves. It is 0 if no entry was added since the seal before."`
	Root              string     `json:"root" jsonschema:"The root of the Merkle tree of RFC 6962 over the leaves, each as canonical JSON (RFC 8785), in hexadecimal digits."`
	Hash              string     `json:"hash" jsonschema:"The SHA-256 of the byte 2 and the seal without hash and leaves as canonical JSON (RFC 8785), in hexadecimal digits."`
	Leaves            []Leaf     `json:"leaves" jsonschema:"The entries of this seal, the oldest first."`
}

// NoHash stands for the seal before the first.
const NoHash = "0000000000000000000000000000000000000000000000000000000000000000"

// sealPrefix separates the hash of a seal from those of leaves and nodes, which RFC 6962 gives the prefixes 0 and 1.
const sealPrefix = 2

// NewLeaf makes the leaf of an entry.
func NewLeaf(e Entry) (Leaf, error) {
	hash, err := hashEntry(e.JSON, newestFormat)
	return Leaf{
		ID: e.ID, CreatedAt: e.CreatedAt.UTC(), ExpiresAt: e.ExpiresAt.UTC(), Format: newestFormat, Hash: hash,
	}, err
}

// New makes the seal after previous, which is nil for the first seal of an organization.
func New(organizationID string, previous *Seal, leaves []Leaf, until time.Time) (Seal, error) {
	s := Seal{
		OrganizationID: organizationID, Sequence: 1, PreviousHash: NoHash,
		SealedUntil: until.UTC().Truncate(time.Microsecond), // as Firestore stores it
		Count:       len(leaves), Leaves: append([]Leaf{}, leaves...),
	}
	if previous != nil {
		s.Sequence, s.PreviousHash = previous.Sequence+1, previous.Hash
		s.ExpiresAt, s.PreviousExpiresAt = previous.ExpiresAt, &previous.ExpiresAt
		s.SealedFrom, s.SealedUntil = &previous.SealedUntil, later(s.SealedUntil, previous.SealedUntil)
	}
	for _, l := range leaves {
		s.ExpiresAt = later(s.ExpiresAt, l.ExpiresAt)
	}
	var rootErr, hashErr error
	s.Root, rootErr = s.root()
	s.Hash, hashErr = s.hash()
	return s, cmp.Or(rootErr, hashErr)
}

// Head returns what the next seal needs of s.
func (s Seal) Head() Seal {
	return Seal{
		OrganizationID: s.OrganizationID, Sequence: s.Sequence, Hash: s.Hash, SealedUntil: s.SealedUntil,
		ExpiresAt: s.ExpiresAt,
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// root computes the root of the leaves' tree.
func (s Seal) root() (string, error) {
	hasher := rfc6962.DefaultHasher
	tree := (&compact.RangeFactory{Hash: hasher.HashChildren}).NewEmptyRange(0)
	for _, l := range s.Leaves {
		canonical, err := canonicalJSON(l)
		if err != nil {
			return "", err
		}
		if err := tree.Append(hasher.HashLeaf(canonical), nil); err != nil {
			return "", fmt.Errorf("hash a seal: %w", err)
		}
	}
	root, err := tree.GetRootHash(nil)
	if root == nil {
		root = hasher.EmptyRoot()
	}
	return hex.EncodeToString(root), err
}

// hash computes the hash of the seal's other fields. It covers the leaves through the root.
func (s Seal) hash() (string, error) {
	canonical, err := canonicalJSON(struct { // in the order of the names
		Count             int        `json:"count"`
		ExpiresAt         time.Time  `json:"expires_at"`
		OrganizationID    string     `json:"organization_id"`
		PreviousExpiresAt *time.Time `json:"previous_expires_at"`
		PreviousHash      string     `json:"previous_hash"`
		Root              string     `json:"root"`
		SealedFrom        *time.Time `json:"sealed_from"`
		SealedUntil       time.Time  `json:"sealed_until"`
		Sequence          int64      `json:"sequence"`
	}{
		s.Count, s.ExpiresAt, s.OrganizationID, s.PreviousExpiresAt, s.PreviousHash, s.Root, s.SealedFrom,
		s.SealedUntil, s.Sequence,
	})
	sum := sha256.Sum256(append([]byte{sealPrefix}, canonical...))
	return hex.EncodeToString(sum[:]), err
}

// canonicalJSON encodes a struct as RFC 8785 says, if its fields are in the order of their names, all numbers are whole
// and all text is UTF-8. Then the library differs from the standard in two characters only, which it escapes.
func canonicalJSON(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode for a seal: %w", err)
	}
	separators := strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029")
	return []byte(separators.Replace(strings.TrimSuffix(b.String(), "\n"))), nil
}

// newestFormat is the format of new leaves. A format never changes: leaves of all formats must stay verifiable. If
// entries get another field, add a format that has it.
const newestFormat = 1

// entryV1 lists the fields of an entry that format 1 covers, in the order of their names; see canonicalJSON.
type entryV1 struct {
	Action string `json:"action"`
	Actor  struct {
		Email     *string `json:"email"`
		ID        string  `json:"id"`
		KeyPrefix *string `json:"key_prefix"`
		Role      string  `json:"role"`
		Type      string  `json:"type"`
	} `json:"actor"`
	Changes []struct {
		Field string  `json:"field"`
		New   *string `json:"new"`
		Old   *string `json:"old"`
	} `json:"changes"`
	CreatedAt string `json:"created_at"`
	ID        string `json:"id"`
	IP        string `json:"ip"`
	Outcome   string `json:"outcome"`
	Replayed  bool   `json:"replayed"`
	RequestID string `json:"request_id"`
	Target    struct {
		ID   *string `json:"id"`
		Name *string `json:"name"`
		Type string  `json:"type"`
	} `json:"target"`
	UserAgent string `json:"user_agent"`
}

// ErrUnknownFormat is the error for a leaf of a later release.
var ErrUnknownFormat = errors.New("a seal has a format that this release does not know; use a newer one")

// hashEntry computes the hash of the fields of an entry that a format covers.
func hashEntry(entry []byte, format int) (string, error) {
	if format != 1 {
		return "", fmt.Errorf("format %d: %w", format, ErrUnknownFormat)
	}
	var covered entryV1
	if err := json.Unmarshal(entry, &covered); err != nil {
		return "", fmt.Errorf("read an audit entry: %w", err)
	}
	canonical, err := canonicalJSON(covered)
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), err
}

// ParseEntry reads a line of an export. It has no ExpiresAt and no WrittenAt.
func ParseEntry(line []byte) (Entry, error) {
	var e struct {
		ID        string    `json:"id"`
		CreatedAt time.Time `json:"created_at"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Entry{}, fmt.Errorf("read an audit entry: %w", err)
	}
	return Entry{ID: e.ID, CreatedAt: e.CreatedAt, JSON: bytes.Clone(line)}, nil
}

// Anchor is what a customer kept of a seal.
type Anchor struct {
	Sequence int64
	Hash     string
}

// ParseAnchor reads an anchor in the form SEQUENCE:HASH.
func ParseAnchor(text string) (Anchor, error) {
	var a Anchor
	sequence, hash, _ := strings.Cut(text, ":")
	if _, err := fmt.Sscanf(sequence, "%d", &a.Sequence); err != nil || a.Sequence < 1 || len(hash) != len(NoHash) {
		return a, fmt.Errorf("%q is not a seal: write its sequence, a colon and its hash", text)
	}
	a.Hash = hash
	return a, nil
}

// Anchor names the seal.
func (s Seal) Anchor() Anchor { return Anchor{Sequence: s.Sequence, Hash: s.Hash} }

// String implements fmt.Stringer with the form that ParseAnchor reads.
func (a Anchor) String() string { return fmt.Sprintf("%d:%s", a.Sequence, a.Hash) }
