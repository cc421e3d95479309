package embedded

import (
	"slices"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agents.example/controlplane/emulators/firestoreemu/embedded/store"
	"agents.example/controlplane/emulators/firestoreemu/embedded/structuredquery"
)

// selector is the part of a request that selects the state to read.
type selector interface {
	GetTransaction() []byte
	GetNewTransaction() *firestorepb.TransactionOptions
	GetReadTime() *timestamppb.Timestamp
}

// reader returns the state that a request reads. begun is the id of the transaction that the request started, if any.
func reader(d *store.Database, s selector) (_ store.Reader, begun []byte, err error) {
	switch {
	case s.GetReadTime() != nil:
		return nil, nil, unimplemented("a read at a read_time")
	case s.GetNewTransaction() != nil:
		tx, err := begin(d, s.GetNewTransaction())
		if err != nil {
			return nil, nil, err
		}
		return tx, tx.ID(), nil
	case len(s.GetTransaction()) > 0:
		tx, err := d.Transaction(s.GetTransaction())
		return tx, nil, err
	default:
		return d, nil, nil
	}
}

// BatchGetDocuments implements firestorepb.FirestoreServer. A document named twice is returned once.
func (s *service) BatchGetDocuments(r *firestorepb.BatchGetDocumentsRequest,
	stream firestorepb.Firestore_BatchGetDocumentsServer,
) error {
	d, err := s.database(r.GetDatabase())
	if err != nil {
		return err
	}
	if r.GetMask() != nil {
		return unimplemented("a mask of BatchGetDocuments")
	}
	var names []string
	for _, name := range r.GetDocuments() {
		if err := store.CheckDocument(d.Name(), name); err != nil {
			return invalid(err)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	from, begun, err := reader(d, r)
	if err != nil {
		return err
	}
	found, at, err := from.Get(stream.Context(), names...)
	if err != nil {
		return err
	}
	if begun != nil {
		if err := stream.Send(&firestorepb.BatchGetDocumentsResponse{Transaction: begun, ReadTime: at}); err != nil {
			return err
		}
	}
	for i, name := range names {
		answer := &firestorepb.BatchGetDocumentsResponse{ReadTime: at}
		if found[i] == nil {
			answer.Result = &firestorepb.BatchGetDocumentsResponse_Missing{Missing: name}
		} else {
			answer.Result = &firestorepb.BatchGetDocumentsResponse_Found{Found: found[i]}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
	return nil
}

// queryResult is the result of a query.
type queryResult struct {
	query     *structuredquery.Query
	documents []*firestorepb.Document
	skipped   int
	at        *timestamppb.Timestamp
	begun     []byte
}

// parseQuery parses a query of documents below parent in a database. It refuses a query that no index serves.
func (s *service) parseQuery(database, parent string, q *firestorepb.StructuredQuery) (*structuredquery.Query, error) {
	if q == nil {
		return nil, unimplemented("a query that is not structured")
	}
	if err := store.CheckParent(database, parent); err != nil {
		return nil, invalid(err)
	}
	parsed, err := structuredquery.Parse(q)
	if err == nil {
		err = store.CheckID(parsed.Collection)
	}
	if err != nil {
		return nil, invalid(err)
	}
	if missing := s.indexes.Missing(parsed); missing != nil {
		return nil, missing.Error(database)
	}
	return parsed, nil
}

// runQuery runs a query against the state that the request selects.
func (s *service) runQuery(parent string, q *firestorepb.StructuredQuery, r selector) (queryResult, error) {
	name, err := store.DatabaseOf(parent)
	if err != nil {
		return queryResult{}, invalid(err)
	}
	parsed, err := s.parseQuery(name, parent, q)
	if err != nil {
		return queryResult{}, err
	}
	d, err := s.database(name)
	if err != nil {
		return queryResult{}, err
	}
	from, begun, err := reader(d, r)
	if err != nil {
		return queryResult{}, err
	}
	f := queryResult{query: parsed, begun: begun}
	f.documents, f.at, err = from.Scan(parent+"/"+parsed.Collection,
		func(all []*firestorepb.Document) []*firestorepb.Document {
			f.skipped = parsed.Skipped(all)
			return parsed.Choose(all)
		})
	return f, err
}

// RunQuery implements firestorepb.FirestoreServer.
func (s *service) RunQuery(r *firestorepb.RunQueryRequest, stream firestorepb.Firestore_RunQueryServer) error {
	if r.GetExplainOptions() != nil {
		return unimplemented("explain_options")
	}
	f, err := s.runQuery(r.GetParent(), r.GetStructuredQuery(), r)
	if err != nil {
		return err
	}
	if f.begun != nil {
		if err := stream.Send(&firestorepb.RunQueryResponse{Transaction: f.begun}); err != nil {
			return err
		}
	}
	if f.skipped > 0 || len(f.documents) == 0 {
		if err := stream.Send(&firestorepb.RunQueryResponse{
			ReadTime:       f.at,
			SkippedResults: int32(f.skipped),
		}); err != nil {
			return err
		}
	}
	for _, d := range f.documents {
		if err := stream.Send(&firestorepb.RunQueryResponse{Document: f.query.Project(d), ReadTime: f.at}); err != nil {
			return err
		}
	}
	return nil
}

// RunAggregationQuery implements firestorepb.FirestoreServer for counts.
func (s *service) RunAggregationQuery(r *firestorepb.RunAggregationQueryRequest,
	stream firestorepb.Firestore_RunAggregationQueryServer,
) error {
	aggregation := r.GetStructuredAggregationQuery()
	if r.GetExplainOptions() != nil {
		return unimplemented("explain_options")
	}
	for _, a := range aggregation.GetAggregations() {
		if a.GetCount() == nil || a.GetCount().GetUpTo() != nil || a.GetAlias() == "" {
			return unimplemented("an aggregation other than a named count without up_to")
		}
	}
	f, err := s.runQuery(r.GetParent(), aggregation.GetStructuredQuery(), r)
	if err != nil {
		return err
	}
	count := &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: int64(len(f.documents))}}
	fields := map[string]*firestorepb.Value{}
	for _, a := range aggregation.GetAggregations() {
		fields[a.GetAlias()] = count
	}
	return stream.Send(&firestorepb.RunAggregationQueryResponse{
		Result: &firestorepb.AggregationResult{AggregateFields: fields}, ReadTime: f.at, Transaction: f.begun,
	})
}
