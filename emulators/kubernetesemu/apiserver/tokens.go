package apiserver

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

const (
	// issuer is the issuer of service accounts' tokens, and their audience unless a client asks for another one.
	issuer = "https://kubernetes.default.svc"
	// minTokenLife and maxTokenLife bound how long a token is valid.
	minTokenLife, maxTokenLife = 10 * time.Minute, 24 * time.Hour
)

// tokens issues and verifies the tokens of service accounts.
type tokens struct {
	signer jose.Signer
	public *ecdsa.PublicKey
}

func newTokens(key *ecdsa.PrivateKey) (*tokens, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		return nil, fmt.Errorf("sign the tokens of service accounts: %w", err)
	}
	return &tokens{signer: signer, public: &key.PublicKey}, nil
}

// accountClaims are the claims of a token that only Kubernetes has.
type accountClaims struct {
	Kubernetes struct {
		Namespace      string    `json:"namespace"`
		ServiceAccount reference `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

type reference struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// issue answers a request for a token of an account.
func (t *tokens) issue(account *corev1.ServiceAccount, request *authenticationv1.TokenRequest) error {
	life := time.Hour
	if seconds := request.Spec.ExpirationSeconds; seconds != nil {
		life = time.Duration(*seconds) * time.Second
	}
	life = min(max(life, minTokenLife), maxTokenLife)
	audiences := request.Spec.Audiences
	if len(audiences) == 0 {
		audiences = []string{issuer}
	}
	now := time.Now()
	expires := now.Add(life)
	var claims accountClaims
	claims.Kubernetes.Namespace = account.Namespace
	claims.Kubernetes.ServiceAccount = reference{account.Name, string(account.UID)}
	token, err := jwt.Signed(t.signer).Claims(jwt.Claims{
		Issuer: issuer, Subject: accountPrefix + account.Namespace + ":" + account.Name, Audience: audiences,
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(expires),
		ID: uuid.NewString(),
	}).Claims(claims).Serialize()
	if err != nil {
		return fmt.Errorf("sign the token of a service account: %w", err)
	}
	request.Spec.Audiences = audiences
	seconds := int64(life / time.Second)
	request.Spec.ExpirationSeconds = &seconds
	request.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(expires)}
	return nil
}

// userOfToken returns the user of a token for one of the audiences; nil is the API server's.
func (s *Server) userOfToken(token string, audiences []string) (user authenticationv1.UserInfo, err error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return user, err
	}
	if len(audiences) == 0 {
		audiences = []string{issuer}
	}
	var standard jwt.Claims
	var claims accountClaims
	if err := parsed.Claims(s.tokens.public, &standard, &claims); err != nil {
		return user, err
	}
	if err := standard.Validate(jwt.Expected{Issuer: issuer, AnyAudience: audiences, Time: time.Now()}); err != nil {
		return user, err
	}
	of := claims.Kubernetes
	o, err := s.registry.Get(s.catalog.Core("ServiceAccount"), store.Key{
		Namespace: of.Namespace,
		Name:      of.ServiceAccount.Name,
	})
	if err != nil {
		return user, err
	}
	if string(store.Meta(o).GetUID()) != of.ServiceAccount.UID {
		return user, errors.New("the service account was deleted")
	}
	return authenticationv1.UserInfo{
		Username: strings.Clone(standard.Subject), UID: of.ServiceAccount.UID,
		Groups: slices.Concat(accountGroups(standard.Subject), []string{groupAuthenticated}),
	}, nil
}
