"""Examples at the end of each command's --help, as they are typed after `airpool`."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "demo",
        "epsilon --devices 12 --noise-std 0.05 --participation 0.9",
        "calibrate --epsilon 2 --devices 12 --dimension 40 --out net.toml",
        "evaluate --network net.toml --trials 2",
        "--show-completion",
    ),
    "demo": ("demo", "demo --object lamp_1 --epsilon 1 --out lamp"),
    "ui": ("ui", "ui --listen 127.0.0.1:0 --open", "ui --server 127.0.0.1:8080"),
    "epsilon": (
        "epsilon --devices 12 --noise-std 0.05 --participation 0.9",
        "epsilon --network net.toml --neighbours replace --inferences 1000 --colluders 2",
        "epsilon --devices 12 --noise-std 0.3 --stay 1min --every 2s",
        "epsilon --devices 12 --noise-std 0.3 --odds --prior 0.1",
        "epsilon --devices 12 --noise-std 0.3 --inferences 100 --units",
    ),
    "report": ("report net.toml --out statement.html --every 10s --hours 8", "report net.toml --per-day 200"),
    "calibrate": (
        "calibrate --epsilon 2 --devices 12 --dimension 40 --out net.toml",
        "calibrate --network net.toml --epsilon 20 --knob inferences",
        "calibrate --devices 12 --odds 0.75",
    ),
    "audit": (
        "audit --network net.toml --runs 10000",
        "audit --devices 3 --noise-std 0.1 --device all --runs 10000 --plot audit.png",
    ),
    "attack": (
        "attack antipodal --devices 12 --noise-std 0.05 --position sum",
        "attack attribute --position link --epsilon 1 --option secret=side",
    ),
    "evaluate": (
        "evaluate --epsilon 2 --trials 2",
        "evaluate --network net.toml --codec compact --out accuracy.csv",
        "evaluate --latents own.safetensors --epsilon 2",
    ),
    "plan": (
        "plan --epsilon 2 --out plan.toml --plot frontier.png",
        "plan --accuracy 0.9 --devices 12 --fading rician --power-dbm 20",
        "plan --budget-epsilon 8 --accuracy 0.9 --slots 16",
    ),
    "theory": ("theory --epsilon 2 --objects 300 --trials 2", "theory --network net.toml --codec compact --json"),
    "design weights": (
        "design weights --epsilon 0.5,2,0.5,2,0.5,2,0.5,2,0.5,2,0.5,2 --out weights.toml",
        "design weights --network net.toml --normalise free",
    ),
    "design clipping": (
        "design clipping --epsilon 0.5,2,0.5,2,0.5,2,0.5,2,0.5,2,0.5,2 --out clipping.toml",
        "design clipping --network net.toml --json",
    ),
    "sweep": (
        "sweep epsilon --set devices=4,12,40 --set noise_std=0.02,0.05,0.1 --out table.csv",
        "sweep evaluate --set epsilon=1,2,10 --set fading=none,rician --set trials=2",
    ),
    "fit": (
        "fit --images photos --out shop.safetensors",
        "fit --videos clips --labels labels.csv --every 2 --out shop.safetensors --folds 5",
    ),
    "data prepare": (
        "data prepare ModelNet40.zip --out meshes.npz",
        "data prepare meshes/ --out meshes.npz.xz --workers 4 --strict",
    ),
    "data info": ("data info meshes.npz", "data info meshes.npz --json"),
    "train trunk": (
        "train trunk meshes.npz --out trained --kind lite2 --seeds 3",
        "train trunk meshes.npz --out trained --epochs 10 --objects 500",
    ),
    "train head": ("train head meshes.npz --trunk trained/trunk-0.safetensors --out trained",),
    "train vote": (
        "train vote meshes.npz --trunk trained/trunk-0.safetensors --head trained/head.safetensors --out trained",
    ),
    "train codec": (
        "train codec meshes.npz --trunk trained/trunk-0.safetensors --out trained --epsilon 1 --epsilon 4",
        "train codec --features own.npz --out trained --name own",
    ),
    "train all": ("train all meshes.npz --out trained", "train all meshes.npz --out trained --set trunk.epochs=30"),
    "bundle": ("bundle --out cameras.zip", "bundle --out cameras.zip --codec compact"),
    "up": (
        "up --devices 12 --inferences 100",
        "up --network net.toml --http 127.0.0.1:8080",
        "up --devices 12 --ui",
        "up --devices 3 --inferences 10 --keys keys --ledger ledgers --budget-epsilon 20",
    ),
    "device": (
        "device --network net.toml --air 127.0.0.1:7000 --device 0",
        "device --config device.toml --ledger device-0.db --budget-epsilon 20",
    ),
    "air": ("air --network net.toml --listen 127.0.0.1:7000", "air --config air.toml"),
    "server": (
        "server --network net.toml --air 127.0.0.1:7000 --http 127.0.0.1:8080",
        "server --config server.toml",
    ),
    "ranking": ("ranking --network net.toml --listen 127.0.0.1:7001", "ranking --config ranking.toml"),
    "check": ("check device.toml",),
    "fleet": (
        "fleet --air 127.0.0.1:7000",
        "fleet --air 127.0.0.1:7000 --keys keys --view sqlite:///fleet.db --budget-epsilon 20",
    ),
    "radio transmit": ("radio transmit --network net.toml --latent z0.npy --device 0 --out device-0",),
    "radio receive": ("radio receive --network net.toml --recordings device-0,device-1 --out sum.npy",),
    "radio evaluate": ("radio evaluate", "radio evaluate --taps 3 --direct 0.8 --timing 1 --pilot-noise-std 0.02"),
    "keys init": ("keys init", "keys init --keys keys --days 90"),
    "keys device": ("keys device device-0 device-1 device-2", "keys device dashboard --keys keys"),
    "keys rotate": ("keys rotate device-3",),
    "keys revoke": ("keys revoke device-3",),
    "keys reissue": ("keys reissue device-3 --days 90",),
    "keys show": ("keys show --keys keys",),
    "ledger show": ("ledger show ledgers/device-0.db", "ledger show ledgers/device-0.db --neighbours replace --json"),
    "ledger verify": (
        "ledger verify ledgers/device-0.db --key keys/device-0/identity.key",
        "ledger verify ledgers/device-0.db --head identity.head",
    ),
    "ledger export": ("ledger export ledgers/device-0.db --out device-0.jsonl",),
    "ledger backup": ("ledger backup ledgers/device-0.db --out device-0-copy.db",),
    "ledger rebuild": ("ledger rebuild device-0.jsonl --out device-0.db",),
    "ledger fleet": (
        "ledger fleet sqlite:///fleet.db --take device-0.jsonl --take device-1.jsonl",
        "ledger fleet sqlite:///fleet.db --of device-0 --out device-0.jsonl",
    ),
    "reproduce": ("reproduce table-2", "reproduce all --out report"),
}
