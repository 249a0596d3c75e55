"""Where secrets lie, and what runs by itself when a person logs in: the tables of paths of a home folder.

Secrets are hidden from commands and file tools; what runs by itself cannot be written. A line names a path
below the home folder, whose it is, and where that is documented. Paths in `.config`, `.local/share` and
`.cache` are also looked for where the XDG variables say.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

_SECRETS = """
    .ssh | OpenSSH | ssh(1)
    .gnupg | GnuPG | gpg(1)
    .netrc | curl, git, ftp | curl.se/docs/manpage.html
    .git-credentials | git | git-scm.com/docs/git-credential-store
    .config/git/credentials | git | git-scm.com/docs/git-credential-store
    .config/gh | GitHub CLI | cli.github.com/manual/gh_help_environment
    .config/hub | hub | hub.github.com/hub.1.html
    .config/glab-cli | GitLab CLI | docs.gitlab.com/cli
    .password-store | pass | passwordstore.org
    .local/share/gopass | gopass | gopass.pw
    .config/op | 1Password | developer.1password.com/docs/cli
    .local/share/keyrings | GNOME Keyring | wiki.gnome.org/Projects/GnomeKeyring
    .local/share/kwalletd | KWallet | docs.kde.org/stable5/en/kwalletmanager
    .vault-token | HashiCorp Vault | developer.hashicorp.com/vault/docs/commands/login
    .config/sops | sops | getsops.io/docs
    .config/age | age | github.com/FiloSottile/age
    .age | age | github.com/FiloSottile/age
    .aws | AWS CLI | docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html
    .azure | Azure CLI | learn.microsoft.com/cli/azure/azure-cli-configuration
    .config/gcloud | Google Cloud CLI | cloud.google.com/sdk/docs/configurations
    .boto | gsutil | cloud.google.com/storage/docs/boto-gsutil
    .config/doctl | DigitalOcean CLI | docs.digitalocean.com/reference/doctl
    .config/hcloud | Hetzner CLI | github.com/hetznercloud/cli
    .config/linode-cli | Linode CLI | techdocs.akamai.com/cloud-computing/docs/cli
    .oci | Oracle Cloud CLI | docs.oracle.com/iaas/Content/API/Concepts/sdkconfig.htm
    .bluemix | IBM Cloud CLI | cloud.ibm.com/docs/cli
    .fly | Fly.io | fly.io/docs/flyctl
    .config/netlify | Netlify CLI | docs.netlify.com/cli
    .local/share/com.vercel.cli | Vercel CLI | vercel.com/docs/cli
    .wrangler | Cloudflare | developers.cloudflare.com/workers/wrangler
    .config/.wrangler | Cloudflare | developers.cloudflare.com/workers/wrangler
    .kube | kubectl | kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig
    .docker/config.json | Docker | docs.docker.com/reference/cli/docker/login
    .docker/run | Docker Desktop | docs.docker.com/desktop
    .config/containers/auth.json | Podman | containers-auth.json(5)
    .config/helm/registry | Helm | helm.sh/docs/topics/registries
    .terraform.d/credentials.tfrc.json | Terraform | developer.hashicorp.com/terraform/cli/commands/login
    .terraformrc | Terraform | developer.hashicorp.com/terraform/cli/config/config-file
    .pulumi/credentials.json | Pulumi | pulumi.com/docs/iac/concepts/state-and-backends
    .config/rclone | rclone | rclone.org/docs
    .rclone.conf | rclone | rclone.org/docs
    .s3cfg | s3cmd | s3tools.org/kb/item14.htm
    .mc/config.json | MinIO client | min.io/docs/minio/linux/reference/minio-mc.html
    .pgpass | PostgreSQL | postgresql.org/docs/current/libpq-pgpass.html
    .my.cnf | MySQL | dev.mysql.com/doc/refman/en/option-files.html
    .mylogin.cnf | MySQL | dev.mysql.com/doc/refman/en/mysql-config-editor.html
    .databrickscfg | Databricks | docs.databricks.com/dev-tools/auth
    .snowflake | Snowflake | docs.snowflake.com/en/developer-guide/snowflake-cli
    .npmrc | npm | docs.npmjs.com/cli/configuring-npm/npmrc
    .pypirc | twine | packaging.python.org/specifications/pypirc
    .config/pypoetry/auth.toml | Poetry | python-poetry.org/docs/repositories
    .cargo/credentials | cargo | doc.rust-lang.org/cargo/reference/config.html
    .cargo/credentials.toml | cargo | doc.rust-lang.org/cargo/reference/config.html
    .gem/credentials | RubyGems | guides.rubygems.org/publishing
    .m2/settings.xml | Maven | maven.apache.org/settings.html
    .m2/settings-security.xml | Maven | maven.apache.org/guides/mini/guide-encryption.html
    .composer/auth.json | Composer | getcomposer.org/doc/articles
    .config/composer/auth.json | Composer | getcomposer.org/doc/articles
    .huggingface/token | Hugging Face | huggingface.co/docs/huggingface_hub/quick-start
    .cache/huggingface/token | Hugging Face | huggingface.co/docs/huggingface_hub/quick-start
    .cache/huggingface/stored_tokens | Hugging Face | huggingface.co/docs/huggingface_hub/quick-start
    .config/wandb | Weights & Biases | docs.wandb.ai/ref/cli/wandb-login
    .kaggle | Kaggle | github.com/Kaggle/kaggle-api
    .anthropic | Anthropic | docs.anthropic.com
    .config/anthropic | Anthropic | docs.anthropic.com
    .openai | OpenAI | platform.openai.com/docs
    .config/openai | OpenAI | platform.openai.com/docs
    .config/io.datasette.llm | llm | llm.datasette.io/en/stable/keys.html
    .claude/.credentials.json | Claude Code | docs.anthropic.com/en/docs/claude-code
    .codex/auth.json | Codex | github.com/openai/codex
    .gemini/oauth_creds.json | Gemini CLI | github.com/google-gemini/gemini-cli
    .local/share/opencode/auth.json | opencode | opencode.ai/docs
    .config/github-copilot | GitHub Copilot | docs.github.com/copilot
    .mozilla | Firefox | support.mozilla.org/kb/profiles-where-firefox-stores-user-data
    .thunderbird | Thunderbird | support.mozilla.org/kb/profiles-where-thunderbird-stores-user-data
    .config/google-chrome | Chrome | chromium.googlesource.com user_data_dir.md
    .config/chromium | Chromium | chromium.googlesource.com user_data_dir.md
    .config/BraveSoftware | Brave | chromium.googlesource.com user_data_dir.md
    .config/microsoft-edge | Edge | chromium.googlesource.com user_data_dir.md
    .config/vivaldi | Vivaldi | chromium.googlesource.com user_data_dir.md
    .config/opera | Opera | chromium.googlesource.com user_data_dir.md
    .Xauthority | X11 | xauth(1)
    .ICEauthority | X11 | iceauth(1)
    .bash_history | bash | bash(1)
    .zsh_history | zsh | zshparam(1)
    .local/share/fish/fish_history | fish | fishshell.com/docs/current/cmds/history.html
    .python_history | Python | docs.python.org/3/tutorial/interactive.html
    .psql_history | PostgreSQL | postgresql.org/docs/current/app-psql.html
    .mysql_history | MySQL | dev.mysql.com/doc/refman/en/mysql-logging.html
    .sqlite_history | SQLite | sqlite.org/cli.html
    .node_repl_history | Node.js | nodejs.org/api/repl.html"""

_SYSTEM = """
    /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d
    /etc/ssl/private /etc/krb5.keytab /run/secrets /var/lib/docker /var/lib/containerd"""

_STARTUP = """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc
    .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .logout .config/fish
    .xinitrc .xprofile .xsession .xsessionrc .pam_environment .config/environment.d
    .config/autostart .config/autostart-scripts .config/plasma-workspace .config/systemd/user
    .local/share/systemd/user .ssh/authorized_keys .ssh/rc .config/cron .crontab
    .gitconfig .config/git .vimrc .config/nvim .emacs .emacs.d .tmux.conf .config/tmux .screenrc .pythonrc"""

_XDG = {".config": "XDG_CONFIG_HOME", ".local/share": "XDG_DATA_HOME", ".cache": "XDG_CACHE_HOME"}

SECRETS_OF_HOME = tuple(line.split(" | ")[0].strip() for line in _SECRETS.strip().splitlines())
STARTUP_OF_HOME = tuple(_STARTUP.split())
SECRETS_OF_SYSTEM = tuple(map(Path, _SYSTEM.split()))


def secrets_of(home: Path, environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """What holds keys, passwords or what a person typed, in a home folder and in the system."""
    return (*_located(SECRETS_OF_HOME, home, environment or {}), *SECRETS_OF_SYSTEM)


def startup_files(home: Path, environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """What programs run or obey by themselves when a person logs in, opens a shell or an editor."""
    return _located(STARTUP_OF_HOME, home, environment or {})


def _located(names: tuple[str, ...], home: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    found = [*_below(home, names)]
    for base, variable in _XDG.items():
        if (elsewhere := environment.get(variable, "")).startswith("/"):
            below = (Path(name).relative_to(base) for name in names if name.startswith(f"{base}/"))
            found += [Path(elsewhere).resolve() / name for name in below]
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=8)
def _below(home: Path, names: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(home / name for name in names)
