package gate

import (
	"errors"
	"fmt"

	"golang.org/x/net/dns/dnsmessage"

	"agents.example/controlplane/shared/egress"
)

const (
	// answerTTL is for how many seconds an agent may keep an answer. The gate checks each connection, too, so an answer
	// may outlive a change of the policy.
	answerTTL = 30
	// maxQuery bounds a query. One question takes much less.
	maxQuery = 4096
	// ednsSize is the size of answers by UDP that the gate claims to accept. Its own have less than 512 bytes.
	ednsSize = 1232

	typeSVCB = dnsmessage.Type(64)

	optionError   = 15 // Extended DNS Error (RFC 8914)
	errorFiltered = 17
)

// Extended codes of answers (RFC 6891): the upper part is in the OPT record.
const badVersion = dnsmessage.RCode(16)

// query is what the gate reads of a DNS message.
type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	edns     bool // the query has an OPT record
	version  byte // of EDNS
}

// errQuery means that a message is no query with one question. It gets no answer: it may be one itself.
var errQuery = errors.New("not a query")

func parseQuery(message []byte) (query, error) {
	var p dnsmessage.Parser
	var q query
	var err error
	if q.header, err = p.Start(message); err != nil {
		return q, fmt.Errorf("%w: %w", errQuery, err)
	}
	if q.header.Response {
		return q, errQuery
	}
	if q.question, err = p.Question(); err != nil {
		return q, fmt.Errorf("%w: %w", errQuery, err)
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return q, errQuery
	}
	if err := errors.Join(p.SkipAllAnswers(), p.SkipAllAuthorities()); err != nil {
		return q, fmt.Errorf("%w: %w", errQuery, err)
	}
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return q, nil
		}
		if err != nil || h.Type == dnsmessage.TypeOPT && q.edns {
			return q, errQuery
		}
		if h.Type == dnsmessage.TypeOPT {
			const versionShift = 16
			q.edns, q.version = true, byte(h.TTL>>versionShift)
		}
		if err := p.SkipAdditional(); err != nil {
			return q, fmt.Errorf("%w: %w", errQuery, err)
		}
	}
}

// decide returns the outcome of a query of an agent, and its code. Only a found name has an address.
func (g *Gate) decide(a Agent, q query) (outcome, dnsmessage.RCode) {
	switch {
	case q.version != 0:
		return outcomeOther, badVersion
	case q.header.OpCode != 0:
		return outcomeOther, dnsmessage.RCodeNotImplemented
	}
	t := g.tenants.of(a.ID)
	host, err := egress.CanonicalHost(q.question.Name.String())
	if err != nil {
		host = egress.NoHost
	}
	if !t.queries.Allow() {
		t.countFlood(&g.counts, host)
		return outcomeLimited, dnsmessage.RCodeRefused
	}
	why := egress.NoName
	if err == nil {
		why = a.Policy.Check(host)
	}
	if why == "" {
		switch q.question.Type {
		case dnsmessage.TypeA:
		case dnsmessage.TypeAAAA, dnsmessage.TypeHTTPS, typeSVCB:
			if q.question.Class == dnsmessage.ClassINET {
				return outcomeEmpty, dnsmessage.RCodeSuccess
			}
			why = egress.Unsupported
		default:
			why = egress.Unsupported
		}
		if q.question.Class != dnsmessage.ClassINET {
			why = egress.Unsupported
		}
	}
	if why == "" {
		return outcomeFound, dnsmessage.RCodeSuccess
	}
	g.counts.refused(a.ID, host, why)
	if why == egress.Unsupported {
		return outcomeRefused, dnsmessage.RCodeRefused
	}
	// The C library of Alpine takes a refusal for no answer: its programs would ask again, and wait for five seconds.
	return outcomeRefused, dnsmessage.RCodeNameError
}

// answer returns the message that answers a query. It has at most 16 bytes more than the query with its EDNS: the
// gate amplifies nothing.
func (g *Gate) answer(q query, what outcome, code dnsmessage.RCode) ([]byte, error) {
	const codeBits = 0xf
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), dnsmessage.Header{ //nolint:mnd // more than any answer has
		ID: q.header.ID, Response: true, OpCode: q.header.OpCode, RecursionDesired: q.header.RecursionDesired,
		RecursionAvailable: true, RCode: code & codeBits,
	})
	b.EnableCompression()
	err := errors.Join(b.StartQuestions(), b.Question(q.question))
	if what == outcomeFound {
		err = errors.Join(err, b.StartAnswers(), b.AResource(dnsmessage.ResourceHeader{
			Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: answerTTL,
		}, dnsmessage.AResource{A: g.o.Address.As4()}))
	}
	if q.edns {
		var h dnsmessage.ResourceHeader
		var opt dnsmessage.OPTResource
		if what == outcomeRefused {
			opt.Options = []dnsmessage.Option{{Code: optionError, Data: []byte{0, errorFiltered}}}
		}
		err = errors.Join(err, h.SetEDNS0(ednsSize, code, false), b.StartAdditionals(), b.OPTResource(h, opt))
	}
	if err != nil {
		return nil, fmt.Errorf("answer a query: %w", err)
	}
	return b.Finish()
}
