package gate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

// authority is the CA of an agent. All gates of a cell derive the same one from the cell's secret, so none is stored.
type authority struct {
	key     *ecdsa.PrivateKey
	subject pkix.Name
	keyID   []byte
}

// keyIDBytes is the length of an identifier of a key (RFC 7093, method 1).
const keyIDBytes = 20

func newAuthority(secret []byte, agentID string) (authority, error) {
	a := authority{subject: pkix.Name{
		Organization: []string{"Agent control plane"}, CommonName: "Egress CA of " + agentID,
	}}
	// One of 2^32 texts is no key of P-256. Then the next one is taken.
	for attempt := 0; a.key == nil; attempt++ {
		info := fmt.Sprintf("agent egress ca/%s/%d", agentID, attempt)
		scalar, err := hkdf.Key(sha256.New, secret, nil, info, scalarBytes)
		if err != nil {
			return authority{}, fmt.Errorf("derive the CA's key: %w", err)
		}
		if a.key, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar); err != nil && attempt == maxAttempts {
			return authority{}, fmt.Errorf("derive the CA's key: %w", err)
		}
	}
	public, err := a.key.PublicKey.Bytes()
	if err != nil {
		return authority{}, fmt.Errorf("encode the CA's key: %w", err)
	}
	sum := sha256.Sum256(public)
	a.keyID = sum[:keyIDBytes]
	return a, nil
}

const (
	scalarBytes = 32
	maxAttempts = 8
)

// The certificate has the same bytes whenever it is made: so have a pod's copy and another gate's.
func validFrom() time.Time { return time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC) }
func validTo() time.Time   { return time.Date(2049, time.December, 31, 0, 0, 0, 0, time.UTC) }

// certificate returns the CA's certificate. It is for the hosts, and no address. Names below the hosts are permitted,
// too: constraints cannot tell them apart.
func (a authority) certificate(hosts []string) ([]byte, error) {
	serial := sha256.Sum256(append(bytes.Clone(a.keyID), strings.Join(hosts, " ")...))
	serial[0] &= 0x7f // positive
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:keyIDBytes]), Subject: a.subject, SubjectKeyId: a.keyID,
		NotBefore: validFrom(), NotAfter: validTo(),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: hosts,
		ExcludedIPRanges: []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 8*net.IPv4len)},
			{IP: net.IPv6zero, Mask: net.CIDRMask(0, 8*net.IPv6len)},
		},
	}
	// Without a source of random numbers, the signature is deterministic (RFC 6979).
	der, err := x509.CreateCertificate(nil, template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("make the CA's certificate: %w", err)
	}
	return der, nil
}

const (
	leafTime = 24 * time.Hour
	// leafEarly is for clocks that are slow.
	leafEarly = time.Hour
)

// leaf returns the certificate of a host's server. The CA itself is in the agent's pod.
func (a authority) leaf(host string, key *ecdsa.PrivateKey, now time.Time) ([]byte, error) {
	serial := make([]byte, keyIDBytes)
	_, _ = rand.Read(serial) // never fails
	serial[0] &= 0x7f
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), DNSNames: []string{host},
		NotBefore: now.Add(-leafEarly), NotAfter: now.Add(leafTime), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	parent := &x509.Certificate{Subject: a.subject, SubjectKeyId: a.keyID}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of %s: %w", host, err)
	}
	return der, nil
}

func (l *leaves) authorityPEM(agentID string, hosts []string) ([]byte, error) {
	a, err := newAuthority(l.secret, agentID)
	if err != nil {
		return nil, err
	}
	der, err := a.certificate(hosts)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
