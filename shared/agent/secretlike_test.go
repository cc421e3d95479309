package agent_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/fault"
)

func TestLooksSecret_FindsTheNamesOfSecrets(t *testing.T) {
	t.Parallel()
	for _, group := range []struct {
		keys string
		want bool
	}{
		{want: true, keys: `
			OPENAI_API_KEY GITHUB_TOKEN db_password MY_SECRET APIKEY TLS_PRIVATE_KEY AWS_CREDENTIALS PASSWD
			API_KEYS TOKENS BOT_TOKENS ACCESSTOKEN ACCESS_TOKEN accessToken refreshToken CSRFTOKEN TOKEN_1 TOKEN2
			clientSecret CLIENTSECRET CLIENT_SECRET CLIENT_SECRETS SECRETKEY SECRET_KEY_BASE DJANGO_SECRET_KEY
			PGPASSWORD MYSQL_ROOT_PASSWORD PASSWORD PASSWORDS PASSWORD2 DB_PASSWORD_2 PassWord passWord
			DB_PASS DB_PASS2 SMTP_PASS PASS DBPASS SMTPPASS userPass MYSQL_PWD PWD DB_PWD DBPWD
			PASSPHRASE SSH_PASSPHRASE KEY_PASSPHRASE PASSCODE
			PRIVATEKEY PRIVATE_KEY privateKey SSH_PRIVATE_KEY PRIVATE_KEYS APIKEYS apiKey OPENAI_APIKEY MYAPI_KEY
			SIGNING_KEY SIGNING_KEYS signingKey SSH_KEY SSH_KEYS DEPLOY_SSH_KEY SSHKEY ACCESS_KEY ACCESS_KEYS
			AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY accessKey S3_ACCESSKEY ENCRYPTION_KEY MASTER_KEY GPG_KEY HMAC_KEY
			JWT_KEY AUTH_KEY SESSION_KEY LICENSE_KEY STORAGE_ACCOUNT_KEY SUPABASE_SERVICE_KEY
			GITHUB_PAT gitlab_pat GITHUB_PATS JWT SERVICE_JWT USER_JWTS JWT_SECRET SENTRY_DSN DATABASE_DSN DSN
			CREDENTIAL CREDENTIALS googleCredentials GOOGLE_APPLICATION_CREDENTIALS CREDS DB_CREDS
			MAX_TOKEN MINIO_TOKENS MAXMIND_TOKENS _TOKEN TOKEN_ __SECRET__`},
		{want: false, keys: `
			MAX_TOKENS maxTokens MAXTOKENS MAX_OUTPUT_TOKENS maxOutputTokens MIN_TOKENS NUM_TOKENS N_TOKENS
			TOKENS_PER_MINUTE THINKING_BUDGET_TOKENS COMPLETION_TOKENS PROMPT_TOKENS STOP_TOKENS SPECIAL_TOKENS
			CHUNK_SIZE_TOKENS_LIMIT TOKENIZERS_PARALLELISM TOKENIZER TOKENIZER_PATH TOKENIZATION tokenizerName
			KEY KEYS KEY_ID PUBLIC_KEY publicKey SSH_PUBLIC_KEY RSA_PUBLIC_KEY CACHE_KEY PRIMARY_KEY PARTITION_KEY
			SORT_KEY KEYBOARD KEYBOARD_LAYOUT API_KEYBOARD MASTER_KEYBOARD MONKEY MONKEYS TURKEY KEYCLOAK_URL HOTKEY
			API_URL API_VERSION APIVERSION PRIVATE_NETWORK PRIVATE_BETA ACCESS_LOG ACCESS_MODE SSH_HOST
			SIGNING_ALGORITHM
			PASSENGERS PASSENGER_COUNT COMPASS COMPASS_URL BYPASS BYPASS_CACHE ENABLE_BYPASS PASS_RATE PASS_THROUGH
			PASSPORT_COUNTRY PASSIVE_MODE OVERPASS_API TRESPASS PASSWORDLESS_LOGIN ENCOMPASS
			OLDPWD CWD SECRETARY SECRETARY_EMAIL SECRETARIAT PATH_PREFIX PATTERN PATIENT_ID PATCH PAT PATH_PAT_ERN
			JWT_ISSUER JWT_AUDIENCE JWT_ALGORITHM DSN_TIMEOUT ACCREDITED CREDIT_LIMIT INCREDIBLE
			DATABASE_URL REDIS_URL LOG_LEVEL MODE A _ _1 PORTS NODE_ENV SESSION_TIMEOUT AUTHOR OAUTH_URL AUTH_URL`},
	} {
		for _, key := range strings.Fields(group.keys) {
			if got := agent.LooksSecret(key); got != group.want {
				t.Errorf("LooksSecret(%q) = %t, want %t", key, got, group.want)
			}
		}
	}
}

func TestLooksSecretValue_FindsTheFormsOfSecrets(t *testing.T) {
	t.Parallel()
	random := func(n int) string { return strings.Repeat("aB3dE5", n/6+1)[:n] }
	upper := func(n int) string { return strings.Repeat("AB3DE5", n/6+1)[:n] }
	for name, c := range map[string]struct {
		value string
		want  bool
	}{
		"OpenAI key":             {value: "sk-" + random(48), want: true},
		"OpenAI project key":     {value: "sk-proj-" + random(60), want: true},
		"Anthropic key":          {value: "sk-ant-api03-" + random(80), want: true},
		"key in a header":        {value: "Authorization: Bearer sk-" + random(48), want: true},
		"Stripe key":             {value: "sk_live_" + random(24), want: true},
		"Stripe restricted key":  {value: "rk_test_" + random(24), want: true},
		"webhook secret":         {value: "whsec_" + random(32), want: true},
		"control plane's key":    {value: apikey.Generate(), want: true},
		"GitHub token":           {value: "ghp_" + random(36), want: true},
		"GitHub app token":       {value: "ghs_" + random(36), want: true},
		"GitHub fine-grained":    {value: "github_pat_" + random(22) + "_" + random(59), want: true},
		"GitLab token":           {value: "glpat-" + random(20), want: true},
		"npm token":              {value: "npm_" + random(36), want: true},
		"Hugging Face token":     {value: "hf_" + random(34), want: true},
		"AWS key id":             {value: "AKIA" + upper(16), want: true},
		"AWS temporary key id":   {value: "ASIA" + upper(16), want: true},
		"Slack bot token":        {value: "xoxb-" + random(40), want: true},
		"Slack user token":       {value: "xoxp-" + random(40), want: true},
		"Google API key":         {value: "AIza" + random(35), want: true},
		"Google access token":    {value: "ya29." + random(60), want: true},
		"SendGrid key":           {value: "SG." + random(22) + "." + random(43), want: true},
		"PEM key":                {value: "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----", want: true},
		"RSA key":                {value: "-----BEGIN RSA PRIVATE KEY-----\nMII", want: true},
		"OpenSSH key in JSON":    {value: `{"key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3"}`, want: true},
		"PGP key":                {value: "-----BEGIN PGP PRIVATE KEY BLOCK-----", want: true},
		"JSON Web Token":         {value: "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln", want: true},
		"URL with a password":    {value: "postgres://app:hunter2@db:5432/app", want: true},
		"URL without a user":     {value: "redis://:hunter2@cache:6379/0", want: true},
		"URL in a list":          {value: "mode=fast https://ci:hunter2@git.example.com/x.git", want: true},
		"connection string":      {value: "host=db user=app password=hunter2", want: true},
		"SQL Server":             {value: "Server=db;User Id=app;Pwd=hunter2;", want: true},
		"Azure storage":          {value: "AccountName=a;AccountKey=" + random(80) + "==", want: true},
		"redis with options":     {value: "cache:6380,password=hunter2,ssl=True", want: true},
		"flag":                   {value: "--user=app --password=hunter2", want: true},
		"empty":                  {value: "", want: false},
		"word":                   {value: "fast", want: false},
		"placeholders":           {value: "gsm configured", want: false},
		"URL":                    {value: "https://example.com:8443/a:b@c", want: false},
		"URL with a user":        {value: "postgres://app@db:5432/app", want: false},
		"URL with IPv6":          {value: "http://[::1]:8080/a@b", want: false},
		"image":                  {value: "example.com:5000/app@sha256:" + strings.Repeat("0a", 32), want: false},
		"address":                {value: "mailto:ada@example.com", want: false},
		"task":                   {value: "task-0123456789-0123456789-0123456789", want: false},
		"package":                {value: "sk-learn-text-classification-pipeline", want: false},
		"locale":                 {value: "sk-SK", want: false},
		"public key":             {value: "-----BEGIN PUBLIC KEY-----\nMII", want: false},
		"certificate":            {value: "-----BEGIN CERTIFICATE-----\nMII", want: false},
		"publishable Stripe key": {value: "pk_live_" + random(24), want: false},
		"base64 of a JSON":       {value: "eyJtb2RlIjoiZmFzdCJ9", want: false},
		"dotted name":            {value: "com.example.eyJob.Runner.Main", want: false},
		"grant type":             {value: "grant_type=password", want: false},
		"empty password":         {value: "user=app&password=", want: false},
		"other key":              {value: "partition_key=abc;sort=password", want: false},
		"id":                     {value: "3fa85f64-5717-4562-b3fc-2c963f66afa6", want: false},
		"long word":              {value: upper(20), want: false},
		"AKIA in a word":         {value: "SLOVAKIA" + upper(16), want: false},
	} {
		if got := agent.LooksSecretValue(c.value); got != c.want {
			t.Errorf("%s: LooksSecretValue(%q) = %t, want %t", name, c.value, got, c.want)
		}
	}
}

// TestEnv_SplitsSecretsFromPlainVariables checks that a variable is a secret by its key or by its value, and that none
// is both or neither.
func TestEnv_SplitsSecretsFromPlainVariables(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"MODE": "fast", "PGPASSWORD": "x", "DATABASE_URL": "postgres://app:hunter2@db/app",
		"REDIS_URL": "redis://cache",
	}
	wantSecrets := map[string]string{"PGPASSWORD": "x", "DATABASE_URL": "postgres://app:hunter2@db/app"}
	if diff := cmp.Diff(wantSecrets, agent.SecretEnv(env)); diff != "" {
		t.Errorf("SecretEnv (-want +got):\n%s", diff)
	}
	wantPlain := []agent.EnvVar{{Key: "MODE", Value: "fast"}, {Key: "REDIS_URL", Value: "redis://cache"}}
	if diff := cmp.Diff(wantPlain, agent.PlainEnv(env)); diff != "" {
		t.Errorf("PlainEnv (-want +got):\n%s", diff)
	}
}

// TestApply_KeepsPlainVariablesThatAreNamedLikeSecrets checks agents of releases that knew fewer names of secrets.
func TestApply_KeepsPlainVariablesThatAreNamedLikeSecrets(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		patch        map[string]*string
		wantEnv      string
		wantReplaced bool
		wantRefused  bool
	}{
		"another variable": {
			patch:   map[string]*string{"MODE": text("slow")},
			wantEnv: "DATABASE_URL=postgres://a:b@c/d MODE=slow PGPASSWORD=x", wantReplaced: true,
		},
		"the placeholders sent back": {
			patch: map[string]*string{
				"PGPASSWORD": text("configured"), "DATABASE_URL": text("configured"), "MODE": text("configured"),
			},
			wantEnv: "DATABASE_URL=postgres://a:b@c/d MODE=fast PGPASSWORD=x",
		},
		"removal": {
			patch:   map[string]*string{"PGPASSWORD": nil, "DATABASE_URL": nil},
			wantEnv: "MODE=fast", wantReplaced: true,
		},
		"another value":               {patch: map[string]*string{"PGPASSWORD": text("y")}, wantRefused: true},
		"the same value":              {patch: map[string]*string{"PGPASSWORD": text("x")}, wantRefused: true},
		"the placeholder of a secret": {patch: map[string]*string{"PGPASSWORD": text("gsm")}, wantRefused: true},
		"a value with a password":     {patch: map[string]*string{"MODE": text("http://a:b@c")}, wantRefused: true},
		"a new secret":                {patch: map[string]*string{"DB_PASS": text("y")}, wantRefused: true},
		"a placeholder of no key":     {patch: map[string]*string{"DB_PASS": text("configured")}, wantRefused: true},
		"removal of an unknown key":   {patch: map[string]*string{"DB_PASS": nil}, wantRefused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := in(agent.Running)
			a.Env = []agent.EnvVar{
				{Key: "DATABASE_URL", Value: "postgres://a:b@c/d"},
				{Key: "MODE", Value: "fast"},
				{Key: "PGPASSWORD", Value: "x"},
			}
			before := a.Generation
			err := patchEnv(&a, c.patch)
			if c.wantRefused {
				if !fault.Is(err, fault.Invalid) {
					t.Fatalf("error = %v, want kind Invalid", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var env []string
			for _, e := range a.Env {
				env = append(env, e.Key+"="+e.Value)
			}
			equal(t, "Env", strings.Join(env, " "), c.wantEnv)
			equal(t, "generation changed", a.Generation != before, c.wantReplaced)
		})
	}
}

// patchEnv changes the environment as the route does: it checks the body, then merges it.
func patchEnv(a *agent.Agent, env map[string]*string) error {
	body := map[string]any{}
	for key, value := range env {
		body[key] = nil
		if value != nil {
			body[key] = *value
		}
	}
	if found := agent.UpdateViolations(map[string]any{"env_vars": body}); len(found) > 0 {
		return fault.Validation(found...)
	}
	return a.Apply(agent.Patch{Env: env}, at(1))
}
