package seal

import (
	"errors"
	"slices"
	"time"
)

// Code says what is wrong with a log.
type Code string

// The codes of problems.
const (
	// EntryChanged: an entry differs from what was sealed.
	EntryChanged Code = "entry_changed"
	// EntryMissing: a sealed entry is gone, although its retention has not ended.
	EntryMissing Code = "entry_missing"
	// EntryAdded: an entry with a time that has been sealed is in no seal.
	EntryAdded Code = "entry_added"
	// EntryReordered: an entry stands elsewhere in the log than it was sealed.
	EntryReordered Code = "entry_reordered"
	// SealBroken: a seal differs from what it states, does not follow the seal before it, or is missing.
	SealBroken Code = "seal_broken"
)

// Values lists the codes.
func (Code) Values() []string {
	return []string{
		string(EntryChanged), string(EntryMissing), string(EntryAdded), string(EntryReordered), string(SealBroken),
	}
}

// Problem is one finding. EntryID is empty for a problem of a seal, and Sequence is 0 for an entry in no seal.
type Problem struct {
	Code     Code
	EntryID  string
	Sequence int64
}

// MaxProblems bounds the problems that a report lists.
const MaxProblems = 100

// Report is the result of a verification.
type Report struct {
	// Entries were read. Unsealed of them are too new to be in a seal. Expired counts sealed entries whose retention
	// has ended.
	Entries, Unsealed, Expired int64
	Seals                      int64
	// Newest is the newest seal without its leaves; nil if there is none.
	Newest *Seal
	// AnchorFound is true if the seals have the anchor's seal or the one after it, which holds its hash.
	AnchorFound bool
	// Found counts all problems. Problems lists the first MaxProblems.
	Found    int64
	Problems []Problem
}

// Verified reports whether there is no problem.
func (r Report) Verified() bool { return r.Found == 0 }

// Verifier compares a log with its seals. Add the seals in their order, and entries in any order but after their seals.
// It holds the leaves of seals until it meets their entries.
type Verifier struct {
	anchor *Anchor
	now    func() time.Time

	report  Report
	waiting map[string]waitingLeaf
	// open are the seals that may have waiting leaves, in their order.
	open []openSeal
}

type waitingLeaf struct {
	Leaf
	sequence int64
}

type openSeal struct {
	sequence int64
	until    time.Time
	ids      []string
}

// NewVerifier returns a verifier of an organization's log. now is the clock that ends retentions. anchor may be nil.
func NewVerifier(now func() time.Time, anchor *Anchor) *Verifier {
	return &Verifier{anchor: anchor, now: now, waiting: map[string]waitingLeaf{}}
}

// AddSeal adds the next seal.
func (v *Verifier) AddSeal(s Seal) {
	if !v.follows(s) {
		v.add(Problem{Code: SealBroken, Sequence: s.Sequence})
	}
	if a := v.anchor; a != nil && (*a == Anchor{s.Sequence, s.Hash} || *a == Anchor{s.Sequence - 1, s.PreviousHash}) {
		v.report.AnchorFound = true
	}
	o := openSeal{sequence: s.Sequence, until: s.SealedUntil}
	for _, l := range s.Leaves {
		v.waiting[l.ID] = waitingLeaf{l, s.Sequence}
		o.ids = append(o.ids, l.ID)
	}
	v.open = append(v.open, o)
	s.Leaves = nil
	v.report.Newest = &s
	v.report.Seals++
}

// follows reports whether the seal is intact and follows the one before it. The first seal may follow one that has
// expired.
func (v *Verifier) follows(s Seal) bool {
	root, rootErr := s.root()
	hash, hashErr := s.hash()
	if rootErr != nil || hashErr != nil || root != s.Root || hash != s.Hash {
		return false
	}
	if v.anchor != nil && v.anchor.Sequence == s.Sequence && v.anchor.Hash != s.Hash {
		return false
	}
	if before := v.report.Newest; before != nil {
		return s.PreviousHash == before.Hash
	}
	if s.Sequence == 1 {
		return s.PreviousHash == NoHash && s.PreviousExpiresAt == nil
	}
	if v.anchor != nil && v.anchor.Sequence == s.Sequence-1 && v.anchor.Hash != s.PreviousHash {
		return false
	}
	return s.PreviousExpiresAt != nil && !v.now().Before(*s.PreviousExpiresAt)
}

// AddEntry adds an entry of the log. Errors: ErrUnknownFormat, and those of an entry that is not JSON.
func (v *Verifier) AddEntry(e Entry) error {
	v.report.Entries++
	l, sealed := v.waiting[e.ID]
	if !sealed {
		v.addWithoutLeaf(e)
		return nil
	}
	delete(v.waiting, e.ID)
	hash, err := hashEntry(e.JSON, l.Format)
	switch {
	case errors.Is(err, ErrUnknownFormat):
		return err
	case err == nil && hash == l.Hash:
	case err == nil && !e.CreatedAt.Equal(l.CreatedAt):
		v.add(Problem{EntryReordered, e.ID, l.sequence})
	default:
		v.add(Problem{EntryChanged, e.ID, l.sequence})
	}
	return nil
}

// misplaced records that an entry does not stand where its time puts it.
func (v *Verifier) misplaced(id string) {
	sequence := int64(0)
	if l, ok := v.waiting[id]; ok {
		sequence = l.sequence
	}
	v.add(Problem{EntryReordered, id, sequence})
}

func (v *Verifier) addWithoutLeaf(e Entry) {
	if i := v.indexOf(e.ID, EntryMissing); i >= 0 {
		v.report.Problems[i].Code = EntryReordered
		return
	}
	if v.report.Newest == nil || !e.CreatedAt.Before(v.report.Newest.SealedUntil.Add(-Lateness)) {
		v.report.Unsealed++
		return
	}
	v.add(Problem{Code: EntryAdded, EntryID: e.ID})
}

func (v *Verifier) indexOf(id string, code Code) int {
	return slices.IndexFunc(v.report.Problems, func(p Problem) bool { return p.EntryID == id && p.Code == code })
}

func (v *Verifier) add(p Problem) {
	v.report.Found++
	if len(v.report.Problems) < MaxProblems {
		v.report.Problems = append(v.report.Problems, p)
	}
}

// closeBefore ends the seals that have no entry with this or a later time: their waiting leaves have no entry.
func (v *Verifier) closeBefore(t time.Time) {
	for len(v.open) > 0 && v.open[0].until.Before(t) {
		v.closeFirst()
	}
}

func (v *Verifier) closeFirst() {
	for _, id := range v.open[0].ids {
		l, waits := v.waiting[id]
		if !waits || l.sequence != v.open[0].sequence {
			continue
		}
		delete(v.waiting, id)
		i := v.indexOf(id, EntryAdded)
		switch {
		case i >= 0:
			v.report.Problems[i] = Problem{EntryReordered, id, l.sequence}
		case v.now().Before(l.ExpiresAt):
			v.add(Problem{EntryMissing, id, l.sequence})
		default:
			v.report.Expired++
		}
	}
	v.open = v.open[1:]
}

// Finish ends the verification.
func (v *Verifier) Finish() Report {
	for len(v.open) > 0 {
		v.closeFirst()
	}
	if v.anchor != nil && (v.report.Newest == nil || v.report.Newest.Sequence < v.anchor.Sequence) {
		v.add(Problem{Code: SealBroken, Sequence: v.anchor.Sequence})
	}
	return v.report
}
