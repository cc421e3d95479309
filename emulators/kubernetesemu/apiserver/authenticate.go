package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Users and groups that every cluster has.
const (
	userAnonymous        = "system:anonymous"
	groupMasters         = "system:masters" // may do anything
	groupAuthenticated   = "system:authenticated"
	groupUnauthenticated = "system:unauthenticated"
	groupAccounts        = "system:serviceaccounts"
	accountPrefix        = "system:serviceaccount:"
)

// authenticate returns the user of a request: of the certificate, of the token, or the one whom they impersonate.
func (s *Server) authenticate(r *http.Request) (authenticationv1.UserInfo, error) {
	user, err := s.identify(r)
	if err != nil {
		return user, apierrors.NewUnauthorized("Unauthorized")
	}
	name := r.Header.Get(authenticationv1.ImpersonateUserHeader)
	if name == "" {
		if len(r.Header.Values(authenticationv1.ImpersonateGroupHeader)) > 0 {
			return user, apierrors.NewBadRequest("groups cannot be impersonated without a user")
		}
		return user, nil
	}
	other := authenticationv1.UserInfo{
		Username: name, UID: r.Header.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: slices.Clone(r.Header.Values(authenticationv1.ImpersonateGroupHeader)),
	}
	if err := s.mayImpersonate(&user, &other); err != nil {
		return user, err
	}
	if len(other.Groups) == 0 {
		other.Groups = accountGroups(name)
	}
	if name != userAnonymous && !slices.Contains(other.Groups, groupUnauthenticated) {
		other.Groups = addGroup(other.Groups, groupAuthenticated)
	}
	return other, nil
}

func (s *Server) identify(r *http.Request) (user authenticationv1.UserInfo, err error) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		subject := r.TLS.PeerCertificates[0].Subject
		return authenticationv1.UserInfo{
			Username: subject.CommonName, Groups: addGroup(slices.Clone(subject.Organization), groupAuthenticated),
		}, nil
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return authenticationv1.UserInfo{Username: userAnonymous, Groups: []string{groupUnauthenticated}}, nil
	}
	token, ok := strings.CutPrefix(header, "Bearer ")
	if !ok {
		return user, errors.New("the request has no bearer token")
	}
	return s.userOfToken(token, nil)
}

func addGroup(groups []string, group string) []string {
	if slices.Contains(groups, group) {
		return groups
	}
	return append(groups, group)
}

// accountGroups returns the groups of a service account; other users have none.
func accountGroups(username string) []string {
	rest, ok := strings.CutPrefix(username, accountPrefix)
	namespace, _, both := strings.Cut(rest, ":")
	if !ok || !both {
		return nil
	}
	return []string{groupAccounts, groupAccounts + ":" + namespace}
}

// mayImpersonate refuses users who may not act as another user or a member of its groups.
func (s *Server) mayImpersonate(user, other *authenticationv1.UserInfo) error {
	check := func(resource, namespace, name string) error {
		a := attributes{verb: "impersonate", resource: resource, namespace: namespace, name: name}
		if s.allows(user, a) {
			return nil
		}
		//nolint:staticcheck // Kubernetes' text
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name,
			fmt.Errorf("User %q cannot impersonate resource %q in API group \"\" at the cluster scope",
				user.Username, resource))
	}
	errs := make([]error, 0, 1+len(other.Groups))
	if rest, ok := strings.CutPrefix(other.Username, accountPrefix); ok {
		namespace, name, _ := strings.Cut(rest, ":")
		errs = append(errs, check("serviceaccounts", namespace, name))
	} else {
		errs = append(errs, check("users", "", other.Username))
	}
	for _, group := range other.Groups {
		errs = append(errs, check("groups", "", group))
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
