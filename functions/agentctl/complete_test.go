package agentctl_test

import "testing"

func TestCompletion_KnowsAgentsAndKeys(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	a.admin().with(canary).run(t, "secrets", "set", id, "TOKEN").ok(t)
	for _, row := range []struct {
		want string
		args []string
	}{
		{"test\trunning\n:4\n", []string{"secrets", "list", ""}},
		{"TOKEN\n:4\n", []string{"secrets", "unset", "test", ""}},
		{"script\nci\nsdk\nmcp\nplayground\nother\n:4\n", []string{"keys", "create", "--purpose", ""}},
		{"admin\nmember\n:4\n", []string{"keys", "create", "--role", ""}},
		{"table\njson\nyaml\nname\njsonpath=\n:4\n", []string{"agents", "list", "-o", ""}},
		{"auto\nalways\nnever\n:4\n", []string{"agents", "list", "--color", ""}},
		{
			"hobby\nstarter\nstartup\npro\nbusiness\nenterprise\n:4\n",
			[]string{"agents", "list", "--plan", ""},
		},
		{":0\n", []string{"secrets", "import", "test", ""}},
	} {
		if got := a.admin().run(t, append([]string{"__complete"}, row.args...)...).ok(t).Stdout; got != row.want {
			t.Errorf("completion of %q = %q, want %q", row.args, got, row.want)
		}
	}
}

func TestCompletion_IsEmptyWithoutTheAPI(t *testing.T) {
	t.Parallel()
	got := tool{url: "http://127.0.0.1:1", token: "so_unused"}.run(t, "__complete", "secrets", "list", "").ok(t)
	if got.Stdout != ":4\n" {
		t.Errorf("completion = %q, want none", got.Stdout)
	}
}
