"""The page docs/benchmarks.md from the benchmarks' results: text and tables, no figure of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]
INTRODUCTION = """# Benchmarks

Speed and memory, against peers, as ratios measured side by side in one run. This page is generated:
`python benchmarks/run.py` measures and writes it, `make benchmark` runs the short form and prints it. How each figure
is measured stands in [benchmarks/README.md](../benchmarks/README.md) and in the scripts.
"""
TARGET_RATIO = 5.0  # examples/s, ours over the peer's
TARGET_SPEED_UP = 3.0  # eager PyTorch over onnxruntime
TARGET_OVER_PRODUCT = 3.0  # onnxruntime over the bare output product
TARGET_FEATURED_STEP, TARGET_FEATURED_COMPLETION = 1.15, 1.05
TARGET_OVERHEAD = 1.10  # step of global_state_update over that of none
TARGET_MANY_ITEMS = 2.0  # a step over a million items by a sampled loss, over one over 30,000 by the exact one


def markdown(results: Mapping[str, Result]) -> str:
    """The whole page; a benchmark without a result has no section."""
    sections = [SECTIONS[name](result) + circumstances(result) for name, result in results.items()]
    return "\n".join([INTRODUCTION, *sections])


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; numbers to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def circumstances(result: Result) -> str:
    """What the figures depend on."""
    about = result["circumstances"]
    versions = {name: about[name] for name in ("torch", "transformers") if about[name] is not None}
    return (
        f"\n{about['date'][:10]}, commit {about['commit']}; {about['processor']}, {about['num_cores']} cores, "
        f"{about['num_threads']} threads, load average at the end {about['load_average'][0]}; "
        f"{', '.join(f'{name} {version}' for name, version in {'Python': about['python'], **versions}.items())}.\n"
    )


def training_step(result: Result) -> str:
    """Examples a second, ratios and the split of a step, as a user's machine does it unasked."""
    sizes = result["set_sizes"]
    return (
        "## Training step\n\n"
        f"{result['num_items']:,} items, batch {result['batch_size']}, the paper's sizes; sets of "
        f"{sizes['smallest']} to {sizes['largest']} items, {sizes['mean']:.2f} in the mean. Peer: `BertForMaskedLM` of "
        "the same sizes under transformers' `Trainer`, same sets, optimiser and precision, padded to the longest set "
        f"of a batch, one item of a set masked, logits at every position. "
        f"{result['rounds']} rounds of {result['steps_per_round']} steps in turn; ratios "
        "are medians over rounds, quartiles in brackets.\n\n" + ratio_table(result) + "\n" + split_table(result)
    )


def training_step_keeping_memory(result: Result) -> str:
    """The same where the C library keeps freed memory: what is left of the ratio."""
    return (
        "## Training step where the allocator keeps its memory\n\n"
        "The same, with glibc told to keep freed blocks, in huge pages (`GLIBC_TUNABLES`, see `benchmarks/run.py`). By "
        "default it gives large blocks back, and the system clears each page of them again at the next step: that is "
        "much of the peer's step, whose table of logits is such a block, and little of ours, which has no such table. "
        "This ratio is the computation alone.\n\n" + ratio_table(result) + "\n" + split_table(result)
    )


def precisions(result: Result) -> list[str]:
    """Those that were measured."""
    return [name for name in ("fp32", "bf16") if name in result]


def ratio_table(result: Result) -> str:
    """Examples a second and ratios of each contender, and what was aimed at."""
    rows: list[list[str]] = []
    verdicts: list[str] = []
    for precision in precisions(result):
        trainer = result[precision]["trainer"]
        for name, rate in trainer["examples_per_second"].items():
            ratio = trainer["times_the_examples_per_second_of_the_peer"].get(name)
            times = (
                f"{ratio['median']:.2f} ({ratio['low_quartile']:.2f} to {ratio['high_quartile']:.2f})" if ratio else "1"
            )
            rows.append([f"{name}, {precision}", f"{rate:,.0f}", f"{1000 * trainer['step_seconds'][name]:.0f}", times])
        lowest = min(ratio["median"] for ratio in trainer["times_the_examples_per_second_of_the_peer"].values())
        verdicts.append(f"{precision}: {lowest:.2f} times the peer ({reached(lowest >= TARGET_RATIO)})")
        overhead = trainer["step_of_global_state_update_over_none"]["median"]
        parted = result[precision]["split"]["step_of_global_state_update_over_none"]
        verdicts.append(
            f"{precision}: `global_state_update` takes {overhead:.3f} times the step of `none` under the trainers and "
            f"{parted:.3f} step by step ({reached(max(overhead, parted) <= TARGET_OVERHEAD)})"
        )
    text = table(["", "examples/s", "step, ms", "times the peer"], rows)
    text += f"\nTargets: at least {TARGET_RATIO:g} times the peer, at most {TARGET_OVERHEAD:.2f} times `none`.\n\n"
    return text + "".join(f"- {verdict}\n" for verdict in verdicts)


def reached(is_reached: bool) -> str:
    """In words."""
    return "target reached" if is_reached else "target missed"


def split_table(result: Result) -> str:
    """Where the time of a step goes."""
    header = ["ms", "data", "encoder", "(forward", "backward)", "head", "(forward", "backward)", "optimiser", "step"]
    rows: list[list[str]] = []
    for precision in precisions(result):
        for name, parts in result[precision]["split"]["part_seconds"].items():
            there, back = ((f"{part}_forward", f"{part}_backward") for part in ("encoder", "head"))
            figures = [
                parts["data"], parts[there[0]] + parts[there[1]], parts[there[0]], parts[there[1]],
                parts[back[0]] + parts[back[1]], parts[back[0]], parts[back[1]], parts["optimiser"], parts["step"],
            ]  # fmt: skip
            rows.append([f"{name}, {precision}", *[f"{1000 * seconds:.1f}" for seconds in figures]])
    return (
        "Split of a step (means without the slowest tenth; the encoder has the embeddings and the context, the head is "
        "transform, output product and loss, the optimiser has the clipping):\n\n" + table(header, rows)
    )


def precision(result: Result) -> str:
    """Whether bfloat16 gives the same model."""
    low, high = result["difference_low_nats"], result["difference_high_nats"]
    rows = [
        [name, *[f"{value:.4f}" for value in values], f"{sum(result['training_seconds'][name]):.0f}"]
        for name, values in result["cross_entropy_nats"].items()
    ]
    header = ["test cross-entropy, nats", *[f"seed {seed}" for seed in range(result["num_seeds"])], "training, s"]
    return (
        "## bfloat16 autocast against float32\n\n"
        f"`{result['conditioning']}` on a stylist world of {result['num_items']:,} items, "
        f"{result['num_train']:,} sets, {result['num_epochs']} epochs; the same seeds in both precisions, "
        f"scored in float32 on {result['num_positions']:,} positions of "
        f"{result['num_customers']:,} other customers.\n\n"
        + table(header, rows)
        + f"\nbf16 - fp32: {result['difference_nats']:+.4f} nats, 95% interval {low:+.4f} to {high:+.4f} "
        f"({'holds' if low <= 0 <= high else 'does not hold'} 0).\n"
    )


def evaluation_memory(result: Result) -> str:
    """Peak memory of the full ranking."""
    rows = [
        [name, *[f"{row[key]:,.0f}" for key in ("num_sets", "num_masked_positions", "before_mib", "added_mib")],
         f"{row['positions_per_second']:,.0f}"]
        for name, measured in (
            ("`score`", result["ours"]),
            ("`Trainer.evaluate`, all logits", result["trainer_evaluate_with_all_logits"]),
        )
        for row in measured
    ]  # fmt: skip
    header = ["", "outfits", "ranked positions", "before, MiB", "added at the peak, MiB", "positions/s"]
    return (
        f"## Memory of the evaluation\n\nThe true item of each masked position is ranked among "
        f"{result['num_items']:,}; each row is a process of its own.\n\n"
        + table(header, rows)
        + f"\n4 times the outfits take {result['added_at_4_times_over_once']:.2f} times the added memory. "
        f"`Trainer.evaluate` on all logits grows by {result['trainer_evaluate_mib_per_masked_position']:.2f} MiB a "
        f"position: {result['trainer_evaluate_extrapolated_mib'] / 1024:,.0f} GiB for the positions of the first row, "
        "by extrapolation.\n"
    )


def inference(result: Result) -> str:
    """One completion: eager, exported, and what the output product alone takes."""

    def spread(ratios: Mapping[str, Any], name: str) -> str:
        found = ratios.get(name)
        return f"{found['median']:.2f} ({found['low_quartile']:.2f} to {found['high_quartile']:.2f})" if found else "1"

    rows = [
        [name, f"{value:.2f}", spread(result["pytorch_over"], name), spread(result["over_product_alone"], name)]
        for name, value in result["p50_milliseconds"].items()
    ]
    speed_up = result["pytorch_over"]["onnxruntime"]["median"]
    over = result["over_product_alone"]["onnxruntime"]["median"]
    int8, kept = (result["over_product_alone"][f"onnxruntime, int8{end}"]["median"] for end in ("", ", state reused"))
    recall = result["int8_recall_at_10"]
    return (
        f"## One completion\n\n`{result['conditioning']}` at the paper's sizes, {result['num_items']:,} items, a "
        f"set of {result['set_size']} with one blank, the {result['top_k']} best permitted items; one thread, batch 1. "
        f"{result['turns']} turns of {result['calls_per_turn']} calls; ratios are medians over turns, quartiles in "
        "brackets. The product alone is that of the float32 output matrix and one vector; where the state is reused, "
        "the customer's context was computed before.\n\n"
        + table(["", "p50, ms", "PyTorch takes times it", "times the product alone"], rows)
        + f"\n- PyTorch over onnxruntime: {speed_up:.2f}, aim at least {TARGET_SPEED_UP:g} "
        f"({reached(speed_up >= TARGET_SPEED_UP)})\n"
        f"- onnxruntime over the product alone: {over:.2f}, aim at most {TARGET_OVER_PRODUCT:g} "
        f"({reached(over <= TARGET_OVER_PRODUCT)})\n"
        f"- with an int8 output matrix: {int8:.2f}, aim below 1 ({reached(int8 < 1)}); with the state reused "
        f"{kept:.2f} ({reached(kept < 1)})\n"
        f"- it proposes {recall:.2%} of the items that float32 proposes, on {result['num_recalled_sets']:,} sets\n"
    )


def context_encoding(result: Result) -> str:
    """From raw columns to tensors."""
    return (
        f"## Encoding the context\n\n{result['num_features']} features, {result['num_rows']:,} rows, one core: "
        f"**{result['rows_per_second_median']:,.0f} rows/s** (median; best {result['rows_per_second_best']:,.0f}). "
        f"Inferring the schema took {result['schema_inference_seconds']:.2f} s.\n"
    )


def world_generation(result: Result) -> str:
    """Drawing outfits and scoring them by the oracle."""
    recalls = ", ".join(f"recall@{k} {value:.1%}" for k, value in result["oracle_recall"].items())
    return (
        f"## The stylist world\n\n{result['num_items']:,} items: {result['num_outfits']:,} outfits drawn in "
        f"{result['drawing_seconds']:.1f} s ({result['drawn_outfits_per_second']:,.0f} a second); the oracle scores "
        f"{result['scored_outfits_per_second']:,.0f} a second; peak memory {result['peak_mib']:,.0f} MiB. "
        f"Best possible: {result['oracle_cross_entropy_nats']:.3f} nats (standard error "
        f"{result['oracle_standard_error_nats']:.3f}), {recalls}, on {result['num_scored_outfits']:,} outfits.\n"
    )


def histories(result: Result) -> str:
    """A log to sets with histories: seconds and memory, ours and peers'."""
    names = {"ours": "`contextual-bert histories`", "duckdb": "DuckDB, 4 GB allowed", "polars": "Polars, streaming"}
    rows = [
        [names[name], "", "", each["failed"], ""]
        if "failed" in each
        else [
            names[name],
            f"{each['seconds']:,.1f}",
            f"{each['ratio']:.2f}",
            f"{each['processor_seconds']:,.1f}",
            f"{each['peak_mib']:,.0f}",
        ]
        for name, each in result["contenders"].items()
    ]
    own = result["contenders"]["ours"]
    several = "All contenders write as many. " if len(result["contenders"]) > 1 else ""
    nice = result.get("niceness", 0)
    behind = f" At low priority (nice {nice}) beside other work: seconds say little." if nice else ""
    return (
        f"## A transaction log of {result['num_rows']:,} rows\n\n"
        f"A log of {result['log_bytes'] / 2**20:,.0f} MiB of Parquet to {own['sets']:,} sets, whose histories of at "
        f"most 50 baskets have {own['items_of_histories']:,} items. {several}"
        f"{counted_turns(result['rounds'])}; ratios are within a turn.{behind}\n\n"
        + table(["", "seconds", "times ours", "processor seconds", "peak memory, MiB"], rows)
    )


def counted_turns(rounds: int) -> str:
    """How often each contender ran, as the beginning of a sentence."""
    return "One turn" if rounds == 1 else f"Medians over {rounds} turns"


def fine_tuning(result: Result) -> str:
    """The step of fine-tuning with a context over that of the plain model, by family."""
    rows = [
        [
            family,
            name,
            f"{each['num_parameters'][name]:,}",
            f"{seconds:.2f}",
            _ratio(each["step_over_peer"].get(name)) or "1",
        ]
        for family, each in result["families"].items()
        for name, seconds in each["step_seconds"].items()
    ]
    how = "; ".join(
        f"{family}: batch {each['batch_size']}, rounds of {each['steps_per_round']}: {each['rounds']}"
        for family, each in result["families"].items()
    )
    highest = max(each["step_over_peer"]["global_state_update"]["median"] for each in result["families"].values())
    return (
        "## Fine-tuning with a context\n\n"
        "A classifier of 5 labels on a BERT of the sizes of MiniLM-L6, and on a RoBERTa and a ModernBERT of those of "
        f"their base models; texts of 8 to {result['max_length']} tokens, six features, float32. Peer: transformers' "
        "class for it; all under transformers' `Trainer` on the same batches, in turn, the first step of a turn not "
        f"counted, in seconds of the processor: other work ran beside it. {how}. Ratios are medians over rounds, in "
        "brackets quartiles, of three rounds the extremes. `multi_attribute` has six blocks more. "
        "`python benchmarks/fine_tuning.py`.\n\n"
        f"Aim for `global_state_update`: at most {TARGET_OVERHEAD:.2f}; the highest is {highest:.2f} "
        f"({reached(highest <= TARGET_OVERHEAD)}).\n\n"
        + table(["family", "model", "parameters", "step (s)", "step over the peer's"], rows)
    )


def generation(result: Result) -> str:
    """The time of a token under a context over that of one without."""
    rows = [
        [
            case,
            name,
            f"{each['token_milliseconds'][name]:.2f}",
            *(_ratio(each[base].get(name)) for base in ("token_over_peer", "token_over_none")),
        ]
        for case, each in result["cases"].items()
        for name in each["token_milliseconds"]
    ]
    over = [each["token_over_none"] for each in result["cases"].values()]
    ours = max(each["global_state_update"]["median"] for each in over)
    highest = max(ratio["median"] for each in over for ratio in each.values())
    shapes = "; ".join(
        f"{name}: {each['num_hidden_layers']} blocks of width {each['hidden_size']}, {each['vocab_size']:,} tokens"
        for name, each in result["shapes"].items()
    )
    return (
        "## Writing under a context\n\n"
        "A token that transformers' `generate` takes, greedily, with a cache, behind a prompt of "
        f"{result['num_prompt']} tokens. Peer: transformers' GPT-2. {shapes}; float32. {result['rounds']} rounds in "
        "turn, in milliseconds of the processor: other work ran beside it. Ratios are medians over rounds, quartiles "
        "in brackets. `python benchmarks/generation.py`.\n\n"
        f"Aim for a context over none: at most {TARGET_OVERHEAD:.2f}; the highest of `global_state_update` is "
        f"{ours:.2f} ({reached(ours <= TARGET_OVERHEAD)}), of all {highest:.3f}.\n\n"
        + table(["sizes and batch", "model", "token (ms)", "over the peer's", "over none's"], rows)
    )


def item_features(result: Result) -> str:
    """What features of items cost a training step and a completion."""
    aims = {"training_step": TARGET_FEATURED_STEP, "completion": TARGET_FEATURED_COMPLETION}
    rows = [
        [
            name.replace("_", " "),
            *(f"{each['milliseconds'][way]:.1f}" for way in ("with_features", "without")),
            _ratio(each["ratio"]),
            f"{aim:.2f} ({reached(each['ratio']['median'] <= aim)})",
        ]
        for name, aim in aims.items()
        for each in [result[name]]
    ]
    return (
        "## Features of items\n\n"
        f"{result['num_items']:,} items, `global_state_update` of the paper's sizes in float32; the same model with "
        f"{result['num_features']} features of each item and without. A training step of {result['batch_size']} sets, "
        f"and a completion, one query at a time. {result['rounds']} rounds in turn, in milliseconds of the processor; "
        "ratios are medians over rounds, quartiles in brackets. `python benchmarks/item_features.py`.\n\n"
        + table(["", "with features (ms)", "without (ms)", "ratio", "aim"], rows)
    )


def many_items(result: Result) -> str:
    """What a step costs with few and with very many items, by loss, and the memory that it takes."""
    mebi = 2**20
    rows = [
        [
            f"`{each['loss']}`",
            f"{each['num_items']:,}",
            f"{1000 * each['seconds']:,.0f}",
            f"{each['ratio']:.2f}",
            *(f"{each[f'bytes_of_{name}'] / mebi:,.0f}" for name in ("weights", "optimiser")),
            f"{each['bytes_at_peak'] / mebi:,.0f}",
        ]
        for each in result["contenders"]
    ]
    [most] = [
        each
        for each in result["contenders"]
        if each["loss"] == "sampled_softmax"
        and each["num_items"] == max(other["num_items"] for other in result["contenders"])
    ]
    beside = (most["bytes_at_peak"] - most["bytes_of_weights"] - most["bytes_of_optimiser"]) / 2**30
    return (
        "## Very many items\n\n"
        f"A training step of `global_state_update` of the paper's sizes, batch {result['batch_size']}, one item of a "
        "set masked, float32: by the exact loss over all items, and by those that look at 4,096 drawn items and the "
        "targets of the batch, where only the rows that were read have gradients and steps. Each contender in a "
        f"process of its own, {result['rounds']} rounds of {result['steps_per_round']} steps in turn (the exact loss "
        "over a million items one round of two); milliseconds of the processor, ratios are medians over rounds. "
        "`python benchmarks/many_items.py`.\n\n"
        f"Aim for a million items over 30,000 by the exact loss: at most {TARGET_MANY_ITEMS:.0f}; it is "
        f"{most['ratio']:.2f} ({reached(most['ratio'] <= TARGET_MANY_ITEMS)}). Memory beside weights and optimiser, "
        f"the program's own among it: at most 1 GiB; it is {beside:.2f} ({reached(beside <= 1)}).\n\n"
        + table(["loss", "items", "step (ms)", "ratio", "weights (MiB)", "optimiser (MiB)", "peak (MiB)"], rows)
    )


def _ratio(ratio: Result | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio['median']:.2f} ({ratio['low_quartile']:.2f} to {ratio['high_quartile']:.2f})"


def startup(result: Result) -> str:
    """CPU seconds of short commands over those of importing what they compute with."""
    programs = result["programs"]
    rows = [
        [
            what,
            f"{each['cpu_seconds']:.2f}",
            f"`{each['over']}`",
            f"{each['ratio']:.2f}",
            f"{each['aim']:g}" if each["aim"] is not None else "",
        ]
        for what, each in programs.items()
        if what not in {other["over"] for other in programs.values()}
    ]
    bases = {each["over"] for each in programs.values()}
    aimed = [each for what, each in programs.items() if each["aim"] is not None and what not in bases]
    num_reached = sum(each["ratio"] <= each["aim"] for each in aimed)
    imports = ", ".join(f"`{what}` {programs[what]['cpu_seconds']:.2f} s" for what in programs if what in bases)
    return (
        "## Start of short commands\n\n"
        f"{num_reached} of {len(aimed)} targets reached. "
        "CPU seconds of a whole process, and their ratio to an import in the same round, medians over "
        f"{result['rounds']} rounds. Imports: {imports}. The table and the run are tiny, so that little but the start "
        "is measured.\n\n" + table(["", "CPU, s", "over", "ratio", "target, at most"], rows)
    )


def serving(result: Result) -> str:
    """Queries a second and waiting times, with and without batches, and where the time goes."""
    ways = result["ways"]
    rates = {way: each["queries_per_second"] for way, each in ways.items()}
    rows = [
        [way, f"{rates[way]:,.0f}", *[f"{rates[way] / rates[other]:.2f}" for other in ("one by one", "empty")],
         f"{each['p50_milliseconds']:.1f}", f"{each['p99_milliseconds']:.1f}",
         *([f"{each['processor_milliseconds']:.2f}"] if "processor_milliseconds" in each else [])]
        for way, each in ways.items()
    ]  # fmt: skip
    header = ["", "queries/s", "times one by one", "times empty", "p50, ms", "p99, ms"]
    header += ["processor, ms a query"] if "processor_milliseconds" in ways["empty"] else []
    parts = list(ways["batched"]["mean_milliseconds"])
    split = [
        [way, *[f"{ways[way]['mean_milliseconds'][part]:.1f}" for part in parts]] for way in ways if way != "empty"
    ]
    text = (
        f"## Serving\n\n{result['num_items']:,} items, the paper's sizes, `global_state_update`, float32; "
        f"{result['num_clients']} clients in a closed loop on the same machine, one query a request, "
        f"{result['rounds']} rounds of {result['seconds_per_round']:g} s in turn. `empty` is an endpoint of the same "
        "framework that does nothing. In batches of "
        f"{ways['batched']['mean_batch_queries']:.1f} in the mean.\n\n"
        + table(header, rows)
        + "\nWhere the time of a request goes (means, ms):\n\n"
        + table(["", *parts], split)
    )
    if (soak := result.get("soak")) is not None:
        text += (
            f"\n{soak['seconds']:,.0f} s of load with {soak['num_reloads']} reloads: {soak['num_requests']:,} "
            f"requests; answers by status {soak['statuses']}, p99 {soak['p99_milliseconds']:.1f} ms, memory from "
            f"{soak['resident_mib'][0]:,.0f} to {soak['resident_mib'][-1]:,.0f} MiB.\n"
        )
    if (refused := result.get("malformed")) is not None:
        text += (
            f"\n{refused['num_requests']:,} malformed requests: answers by status {refused['statuses']}, memory grew "
            f"by {refused['grown_mib']:.1f} MiB.\n"
        )
    return text


_TABLES_OF_FILMS = {
    "last": "the last two films of each person left out, one for validation and one for test",
    "time": "two borders in time, the same for all persons, and a row for each film after them",
}


def next_item(result: Result) -> str:
    """What RecTools' models reach on one table of MovieLens 100k, and how little their settings were searched."""
    sequences, rows = result["sequences"], list[list[str]]()
    for name, each in result["systems"].items():
        runs, tried = each.get("runs", ()), each.get("tried", ())
        parts = [each[part] for part in ("validation", "test")]
        figures = [part[metric] for part in parts for metric in ("ndcg@10", "recall@10", "mrr@10")]
        means = [figure["mean"] if isinstance(figure, dict) else figure for figure in figures]
        seconds = [run["processor_seconds_per_epoch"] for run in runs]
        rows.append([
            name, str(len(tried)) if tried else "", ", ".join(str(run["epoch"]) for run in runs),
            *[f"{100 * mean:.2f}" for mean in means], f"{min(seconds):.1f}" if seconds else "",
        ])  # fmt: skip
    seeds = sorted({run["seed"] for each in result["systems"].values() for run in each.get("runs", ())})
    test = sequences["test"]
    columns = [f"{metric}, {part}" for part in ("validation", "test") for metric in ("NDCG@10", "recall@10", "MRR@10")]
    return (
        f"## The next film by RecTools, table `{result['table']}`\n\n"
        f"A measure of ranks, not of speed: what our models stand beside in [results](results.md#the-next-film). "
        f"MovieLens 100k, {_TABLES_OF_FILMS[result['table']]}. RecTools {result['rectools']} learns "
        f"{sequences['train_items']:,} ratings of {sequences['train_rows']:,} persons and ranks all "
        f"{sequences['films']:,} films; {test['rows']:,} test rows, of which {test['targets_not_in_train']:,} ask for "
        f"a film that training does not have, which is a miss. {'Seeds' if len(seeds) > 1 else 'One seed:'} "
        f"{', '.join(map(str, seeds))}. In percent. `python benchmarks/next_item.py FOLDER --table "
        f"{result['table']}`.\n\n"
        + table(["", "settings tried", "epoch", *columns, "processor seconds an epoch"], rows)
    )


SECTIONS = {
    "fine_tuning": fine_tuning,
    "generation": generation,
    "item_features": item_features,
    "many_items": many_items,
    "training_step": training_step,
    "training_step_keeping_memory": training_step_keeping_memory,
    "precision": precision,
    "evaluation_memory": evaluation_memory,
    "inference": inference,
    "context_encoding": context_encoding,
    "world_generation": world_generation,
    "histories": histories,
    "histories_10m": histories,
    "histories_100m": histories,
    "serving": serving,
    "startup": startup,
    "next_item_last": next_item,
    "next_item_time": next_item,
}
