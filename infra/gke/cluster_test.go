package gke
import ("testing")
var shared sharedCluster
type sharedCluster struct{}
func (s *sharedCluster) close() {}
func wantPermanent(t *testing.T, err error, code string) { t.Helper() }
