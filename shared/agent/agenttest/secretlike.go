package agenttest

import (
	"strings"

	"agents.example/controlplane/shared/apikey"
)

// SecretKeys returns keys of variables, and whether they are named like secrets. The tests of the console use them,
// too.
func SecretKeys() map[string]bool {
	keys := map[string]bool{}
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
			keys[key] = group.want
		}
	}
	return keys
}

// SecretValue is the value of a variable, and whether it has the form of a secret.
type SecretValue struct {
	Value string
	Want  bool
}

// SecretValues returns values by what they are.
func SecretValues() map[string]SecretValue {
	random := func(n int) string { return strings.Repeat("aB3dE5", n/6+1)[:n] }
	upper := func(n int) string { return strings.Repeat("AB3DE5", n/6+1)[:n] }
	return map[string]SecretValue{
		"OpenAI key":             {Value: "sk-" + random(48), Want: true},
		"OpenAI project key":     {Value: "sk-proj-" + random(60), Want: true},
		"Anthropic key":          {Value: "sk-ant-api03-" + random(80), Want: true},
		"key in a header":        {Value: "Authorization: Bearer sk-" + random(48), Want: true},
		"Stripe key":             {Value: "sk_live_" + random(24), Want: true},
		"Stripe restricted key":  {Value: "rk_test_" + random(24), Want: true},
		"webhook secret":         {Value: "whsec_" + random(32), Want: true},
		"control plane's key":    {Value: apikey.Generate(), Want: true},
		"GitHub token":           {Value: "ghp_" + random(36), Want: true},
		"GitHub app token":       {Value: "ghs_" + random(36), Want: true},
		"GitHub fine-grained":    {Value: "github_pat_" + random(22) + "_" + random(59), Want: true},
		"GitLab token":           {Value: "glpat-" + random(20), Want: true},
		"npm token":              {Value: "npm_" + random(36), Want: true},
		"Hugging Face token":     {Value: "hf_" + random(34), Want: true},
		"AWS key id":             {Value: "AKIA" + upper(16), Want: true},
		"AWS temporary key id":   {Value: "ASIA" + upper(16), Want: true},
		"Slack bot token":        {Value: "xoxb-" + random(40), Want: true},
		"Slack user token":       {Value: "xoxp-" + random(40), Want: true},
		"Google API key":         {Value: "AIza" + random(35), Want: true},
		"Google access token":    {Value: "ya29." + random(60), Want: true},
		"SendGrid key":           {Value: "SG." + random(22) + "." + random(43), Want: true},
		"PEM key":                {Value: "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----", Want: true},
		"RSA key":                {Value: "-----BEGIN RSA PRIVATE KEY-----\nMII", Want: true},
		"OpenSSH key in JSON":    {Value: `{"key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3"}`, Want: true},
		"PGP key":                {Value: "-----BEGIN PGP PRIVATE KEY BLOCK-----", Want: true},
		"JSON Web Token":         {Value: "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln", Want: true},
		"URL with a password":    {Value: "postgres://app:hunter2@db:5432/app", Want: true},
		"URL without a user":     {Value: "redis://:hunter2@cache:6379/0", Want: true},
		"URL in a list":          {Value: "mode=fast https://ci:hunter2@git.example.com/x.git", Want: true},
		"connection string":      {Value: "host=db user=app password=hunter2", Want: true},
		"SQL Server":             {Value: "Server=db;User Id=app;Pwd=hunter2;", Want: true},
		"Azure storage":          {Value: "AccountName=a;AccountKey=" + random(80) + "==", Want: true},
		"redis with options":     {Value: "cache:6380,password=hunter2,ssl=True", Want: true},
		"flag":                   {Value: "--user=app --password=hunter2", Want: true},
		"empty":                  {Value: "", Want: false},
		"word":                   {Value: "fast", Want: false},
		"placeholders":           {Value: "gsm configured", Want: false},
		"URL":                    {Value: "https://example.com:8443/a:b@c", Want: false},
		"URL with a user":        {Value: "postgres://app@db:5432/app", Want: false},
		"URL with IPv6":          {Value: "http://[::1]:8080/a@b", Want: false},
		"image":                  {Value: "example.com:5000/app@sha256:" + strings.Repeat("0a", 32), Want: false},
		"address":                {Value: "mailto:ada@example.com", Want: false},
		"task":                   {Value: "task-0123456789-0123456789-0123456789", Want: false},
		"package":                {Value: "sk-learn-text-classification-pipeline", Want: false},
		"locale":                 {Value: "sk-SK", Want: false},
		"public key":             {Value: "-----BEGIN PUBLIC KEY-----\nMII", Want: false},
		"certificate":            {Value: "-----BEGIN CERTIFICATE-----\nMII", Want: false},
		"publishable Stripe key": {Value: "pk_live_" + random(24), Want: false},
		"base64 of a JSON":       {Value: "eyJtb2RlIjoiZmFzdCJ9", Want: false},
		"dotted name":            {Value: "com.example.eyJob.Runner.Main", Want: false},
		"grant type":             {Value: "grant_type=password", Want: false},
		"empty password":         {Value: "user=app&password=", Want: false},
		"other key":              {Value: "partition_key=abc;sort=password", Want: false},
		"id":                     {Value: "3fa85f64-5717-4562-b3fc-2c963f66afa6", Want: false},
		"long word":              {Value: upper(20), Want: false},
		"AKIA in a word":         {Value: "SLOVAKIA" + upper(16), Want: false},
	}
}
