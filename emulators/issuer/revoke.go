package issuer

import "net/http"

// revoke ends a family of refresh tokens (RFC 7009). Access tokens stay valid until they expire. An unknown token is no
// error, because it is not valid either.
func (i *Issuer) revoke(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxTokenRequest)
	form, client, err := i.readTokenForm(r)
	if err != nil {
		respondRefusal(w, err)
		return
	}
	i.signIns.revoke(form.Get("token"), client)
	w.WriteHeader(http.StatusOK)
}

func (s *signIns) revoke(value string, by Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token, ok := s.refresh[value]; ok && token.client == by.ID {
		token.revoked = true
	}
	s.sweep()
}
