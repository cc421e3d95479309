package issuer

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"
	deviceTTL   = 10 * time.Minute
	// deviceInterval is how long a device must wait between two questions, in seconds. It is short, for development.
	deviceInterval = 1
	// userCodeLetters are the letters of codes that people type: no vowels, so that no words appear (RFC 8628,
	// section 6.1).
	userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"
	userCodeLength  = 8
)

// device is a sign-in that another device asked for (RFC 8628).
type device struct {
	family   *family
	userCode string
	expires  time.Time
	asked    time.Time // when the device last asked
	approved bool
	denied   bool
}

// authorizeDevice starts the sign-in of a device without a browser.
func (i *Issuer) authorizeDevice(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxTokenRequest)
	form, client, err := i.readTokenForm(r)
	if err != nil {
		respondRefusal(w, err)
		return
	}
	code, userCode := i.signIns.addDevice(client, form.Get("scope"))
	w.Header().Set("Cache-Control", "no-store")
	respond(w, http.StatusOK, map[string]any{
		"device_code": code, "user_code": userCode, "verification_uri": i.url + "/device",
		"verification_uri_complete": i.url + "/device?" + url.Values{"user_code": {userCode}}.Encode(),
		"expires_in":                int(deviceTTL.Seconds()), "interval": deviceInterval,
	})
}

// showDevice shows the page on which a user enters the code of a device, and then the page to choose a user.
func (i *Issuer) showDevice(w http.ResponseWriter, r *http.Request) {
	entered := r.URL.Query().Get("user_code")
	current, _ := i.browser(r)
	switch {
	case entered == "" || !i.signIns.awaits(entered):
		i.show(w, http.StatusOK, "device.html", entered, "")
	case r.URL.Query().Has("cancel"):
		i.signIns.decideDevice(entered, nil)
		i.showMessage(w, http.StatusOK, "The sign-in is canceled", "You can close this page.")
	default:
		i.showChoice(w, http.StatusOK, deviceRequest(entered), choice{current: current})
	}
}

// deviceRequest makes the sign-in page one for the code of a device.
func deviceRequest(userCode string) authRequest {
	return authRequest{userCode: userCode, values: url.Values{"user_code": {userCode}}}
}

// chooseForDevice accepts the form of the sign-in page for a device.
func (i *Issuer) chooseForDevice(w http.ResponseWriter, r *http.Request) {
	if !i.readForm(w, r) {
		return
	}
	userCode := r.PostForm.Get("user_code")
	chosen := chosenSession(r.PostForm)
	if invalid := checkSession(chosen); len(invalid) > 0 {
		i.showChoice(w, http.StatusUnprocessableEntity, deviceRequest(userCode),
			choice{entered: chosen, invalid: invalid})
		return
	}
	cookie, started := i.signIns.start(plain(chosen))
	if !i.signIns.decideDevice(userCode, started) {
		i.show(w, http.StatusOK, "device.html", userCode, "")
		return
	}
	i.setCookie(w, cookie)
	i.showMessage(w, http.StatusOK, "The device is signed in", "You can close this page and return to the device.")
}

func (s *signIns) addDevice(client Client, scope string) (code, userCode string) {
	letters := make([]byte, userCodeLength)
	_, _ = rand.Read(letters) // never fails
	for n, b := range letters {
		letters[n] = userCodeLetters[int(b)%len(userCodeLetters)]
	}
	userCode = string(letters[:userCodeLength/2]) + "-" + string(letters[userCodeLength/2:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	code = rand.Text()
	s.devices[code] = &device{
		family: &family{client: client.ID, scope: scope}, userCode: userCode, expires: s.now().Add(deviceTTL),
	}
	return code, userCode
}

// deviceOf returns the device that waits with a user code. It needs the lock.
func (s *signIns) deviceOf(entered string) *device {
	for _, d := range s.devices {
		if plainCode(d.userCode) == plainCode(entered) && s.now().Before(d.expires) && !d.approved && !d.denied {
			return d
		}
	}
	return nil
}

// plainCode returns a user code as people may type it.
func plainCode(code string) string {
	return strings.NewReplacer("-", "", " ", "").Replace(strings.ToUpper(code))
}

// awaits reports whether a device waits with a user code.
func (s *signIns) awaits(userCode string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deviceOf(userCode) != nil
}

// decideDevice signs the device with a user code in, or refuses it if there is no sign-in. It reports whether the
// device waits.
func (s *signIns) decideDevice(userCode string, of *signIn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.deviceOf(userCode)
	if d == nil {
		return false
	}
	d.approved, d.denied, d.family.signIn = of != nil, of == nil, of
	return true
}

// redeemDevice returns what a device code stands for, once a user has decided.
func (s *signIns) redeemDevice(by Client, code string) (*family, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.devices[code]
	if !ok || d.family.client != by.ID {
		return nil, refuse("invalid_grant", "The device code is unknown or was used before.")
	}
	early := s.now().Sub(d.asked) < deviceInterval*time.Second/2
	d.asked = s.now()
	switch {
	case !s.now().Before(d.expires):
		return nil, refuse("expired_token", "The device code has expired. Sign in again.")
	case d.denied:
		delete(s.devices, code)
		return nil, refuse("access_denied", "The user canceled the sign-in.")
	case d.approved:
		delete(s.devices, code)
		return d.family, nil
	case early:
		return nil, refuse("slow_down", "Ask less often.")
	}
	return nil, refuse("authorization_pending", "The user has not decided yet.")
}
