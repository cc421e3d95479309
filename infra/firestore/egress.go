package firestore

import (
	"context"
	"reflect"
	"slices"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/egresslog"
)

// EgressLog implements egresslog.Log.
//
// The counts of an agent, a day and a gate are one document. A gate reports its own counts only, so two gates never
// compete for one, and no counts are lost or added twice when a report comes late or again. Firestore deletes a
// document some days later. The removal of an agent leaves its documents: they hold no more than the events of the same
// refusals, which are kept for longer, and a commit could not name all of them.
type EgressLog struct {
	client *Client
}

var _ egresslog.Log = (*EgressLog)(nil)

// EgressLog is the log of what agents reach.
func (c *Client) EgressLog() *EgressLog { return &EgressLog{client: c} }

// egressDay is what one gate counted of an agent on one day.
type egressDay struct {
	agentID, gate, day string
	hosts              []egress.Count
	expiresAt          time.Time
}

// egressDayFields lists what is stored of a day. Only agent_id and day have an index.
func egressDayFields(d *egressDay) fields {
	return fields{
		{"agent_id", text(&d.agentID)},
		{"gate", text(&d.gate)},
		{"day", text(&d.day)},
		{"hosts", array(&d.hosts, egressCountFields)},
		{"expires_at", timestamp(&d.expiresAt)},
	}
}

func egressCountFields(c *egress.Count) fields {
	return fields{
		{"host", text(&c.Host)},
		{"used", number(&c.Used)},
		{"refused", number(&c.Refused)},
		{"reason", text(&c.Reason)},
		{"first_at", timestamp(&c.FirstAt)},
		{"last_at", timestamp(&c.LastAt)},
		{"refused_at", timestamp(&c.RefusedAt)},
	}
}

// egressNotices are the last events about what an agent was refused. All gates share them, so that two of them lead to
// one event.
type egressNotices struct {
	hosts     []egresslog.Notice
	expiresAt time.Time
}

func egressNoticesFields(n *egressNotices) fields {
	return fields{
		{"hosts", array(&n.hosts, egressNoticeFields)},
		{"expires_at", timestamp(&n.expiresAt)},
	}
}

func egressNoticeFields(n *egresslog.Notice) fields {
	return fields{
		{"host", text(&n.Host)},
		{"at", timestamp(&n.At)},
	}
}

// egressDayID has the gate at the end, because only its length is not fixed.
func egressDayID(agentID, day, gate string) string { return agentID + "~" + day + "~" + gate }

// Record implements egresslog.Log. It reads the agent, the counts and the notices in one call, and writes in one commit
// what the report changes. After an error whose outcome is unknown, the counts show whether the commit was carried out.
func (l *EgressLog) Record(ctx context.Context, gate string, r egress.Report) error {
	owner, known := l.client.agent(r.AgentID)
	ref, valid := l.client.ref(egressDayCollection, egressDayID(r.AgentID, r.Day, gate))
	day, err := time.Parse(egress.DayFormat, r.Day)
	if !known || !valid || err != nil {
		return errBadID // egresslog.Violation finds these
	}
	notices, _ := l.client.ref(egressNoteCollection, owner.ID)
	d := egressDay{agentID: owner.ID, gate: gate, day: r.Day, expiresAt: egresslog.ExpiresAt(day)}
	announced := ""
	err = l.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snaps, err := l.client.read(ctx, owner, ref, notices)
		if err != nil || !snaps[0].Exists() {
			return err
		}
		a, err := agentOf(snaps[0])
		if err != nil || a.Status == agent.Deleting {
			return err
		}
		hasEvents, err := l.save(ctx, a, d, r.Hosts, snaps[1:])
		if hasEvents {
			announced = a.OrganizationID
		}
		return err
	})
	if err == nil && announced != "" {
		l.client.reportEvents(ctx, announced)
	}
	return err
}

// save commits what reported counts change. snaps are the documents of the day and of the notices.
func (l *EgressLog) save(
	ctx context.Context, a agent.Agent, d egressDay, reported []egress.Count, snaps []*gcp.DocumentSnapshot,
) (hasEvents bool, err error) {
	recorded, notices := egressDay{}, egressNotices{}
	dayFields, noticesFields := egressDayFields(&recorded), egressNoticesFields(&notices)
	dayRest, err := decodeIfExists(snaps[0], dayFields)
	if err != nil {
		return false, err
	}
	noticesRest, err := decodeIfExists(snaps[1], noticesFields)
	if err != nil {
		return false, err
	}
	before := recorded.hosts
	d.hosts = egresslog.Merge(before, reported)
	if snaps[0].Exists() && equalCounts(before, d.hosts) {
		return false, nil // it was recorded before
	}
	recorded = d
	b := l.client.batch()
	saveRead(b, snaps[0], dayFields.encodeWith(dayRest))
	now := l.client.now()
	events, hosts := egresslog.Announce(notices.hosts, before, d.hosts, now)
	if len(events) > 0 {
		notices = egressNotices{hosts: hosts, expiresAt: now.Add(egresslog.NoticeInterval)}
		saveRead(b, snaps[1], noticesFields.encodeWith(noticesRest))
		l.client.writeEvents(b, a.OrganizationID, a.ID, events)
	}
	_, err = l.client.commit(ctx, b)
	return len(events) > 0, err
}

// decodeIfExists decodes a document, which may not exist, and returns its rest.
func decodeIfExists(snap *gcp.DocumentSnapshot, f fields) (*document.Rest, error) {
	if !snap.Exists() {
		return nil, nil
	}
	return decodeWithRest(snap, f)
}

// saveRead writes a document, on the condition that it is as it was read.
func saveRead(b *batch, snap *gcp.DocumentSnapshot, doc map[string]any) {
	if snap.Exists() {
		b.Update(snap.Ref, updates(doc), gcp.LastUpdateTime(snap.UpdateTime))
		return
	}
	b.Create(snap.Ref, doc)
}

// equalCounts compares counts as they are stored.
func equalCounts(a, b []egress.Count) bool {
	return reflect.DeepEqual(array(&a, egressCountFields).encode(), array(&b, egressCountFields).encode())
}

// egressPage bounds the documents that List reads. A gate has one for each day since it started, and a cell has up to
// twenty gates: there are fewer, even if each of them started twice a day.
const egressPage = 400

// List implements egresslog.Log. It reads the newest documents of the agent.
func (l *EgressLog) List(ctx context.Context, agentID string) ([]egress.Count, error) {
	owner, ok := l.client.agent(agentID)
	if !ok {
		return nil, nil
	}
	snaps, err := l.client.runQuery(ctx, query{
		collection: egressDayCollection, equal: []equality{{"agent_id", owner.ID}},
		order: []order{{"day", gcp.Desc}}, limit: egressPage,
	})
	if err != nil {
		return nil, err
	}
	since := l.client.now().Add(-egress.LogTime)
	var sum []egress.Count
	for _, snap := range snaps {
		var d egressDay
		if err := decode(snap, egressDayFields(&d)); err != nil {
			reportUnreadable(ctx, egressDayCollection, snap.Ref.ID, err)
			continue
		}
		recent := slices.DeleteFunc(d.hosts, func(c egress.Count) bool { return c.LastAt.Before(since) })
		sum = egress.Sum(sum, recent)
	}
	return sum, nil
}
