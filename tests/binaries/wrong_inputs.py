"""Wrong inputs by name: what is typed, and a part of the one sentence.

`{f}` is the folder of `bad_files`, `{o}` one that is not there yet; where
--output_dir is not typed it is `{o}`.
"""

_TINY = (
    'train --algo=fedavg --num_clients=4 --partition=iid --train_fraction=0.1'
)
_NPZ = 'train --algo=fedavg --task=npz --data_dir={f}'
_CSV = 'train --algo=fedavg --task=csv --data_dir={f}'
_RESUME = 'train --resume --output_dir={f}/runs'
_TUNED = 'compare_tuned --algos=fedavg'
_ROBUST = 'robustness --num_clients=4'
_CHECK = 'check_orderings --runs={f}'
_ONCE = 'must be a file as the programs'

FLAGS = {
    'seed_of_more_than_an_int64': (
        f'{_TINY} --seed=9223372036854775808',
        '`--seed` must be an integer >= 0 and <= 9223372036854775807, found',
    ),
    'seed_of_5000_digits': (f'{_TINY} --seed={"9" * 5000}', '`--seed` must be'),
    'batch_of_more_than_an_int32': (
        f'{_TINY} --fedavg_batch_size=2147483648',
        '`--fedavg_batch_size` must be an integer >= 0 and <= 2147483647,',
    ),
    'steps_of_more_than_an_int32': (
        f'{_TINY} --fedavg_local_steps=99999999999', 'and <= 2147483647, found'
    ),
    'rounds_of_more_than_an_int32': (
        f'{_TINY} --rounds=4294967296', '`--rounds` must be an integer >= 1'
    ),
    'bracket_of_more_than_an_int32': (
        'train --algo=fedavg[batch_size=4294967296]', 'and <= 2147483647'
    ),
    'task_flag_of_more_than_an_int32': (
        f'{_NPZ}/good.npz --npz_num_classes=4294967296', 'and <= 2147483647'
    ),
    'rounds_with_a_fraction': (f'{_TINY} --rounds=1.5', "found '1.5'"),
    'rounds_of_nothing': (f'{_TINY} --rounds=', "found ''"),
    'infinite_rate': (
        f'{_TINY} --fedavg_learning_rate=inf', 'must be a number > 0.0'
    ),
    'rate_that_is_nan': (
        f'{_TINY} --fedavg_learning_rate=nan', 'must be a number > 0.0'
    ),
    'rate_beyond_floats': (
        f'{_TINY} --fedavg_learning_rate=1e999', 'must be a number > 0.0'
    ),
    'too_many_clients': (
        'train --algo=fedavg --partition=iid --num_clients=2147483647',
        '`--num_clients` must be',
    ),
    'train_fraction_of_0': (f'{_TINY} --train_fraction=0', '`--train_fraction`'),
    'train_fraction_above_1': (
        f'{_TINY} --train_fraction=1.1', '`--train_fraction` must be'
    ),
    'validation_of_everything': (
        f'{_TINY} --validation_fraction=1', '`--validation_fraction` must be'
    ),
    'unknown_attack': (f'{_TINY} --attack=magic', '`--attack` must be one of'),
    'attack_without_attackers': (f'{_TINY} --attack=ipm', '`--attack` must be'),
    'attack_with_a_wrong_option': (
        f'{_TINY} --num_byzantine=1 --attack=ipm[force=1]', 'ipm'
    ),
    'only_byzantine_clients': (
        f'{_TINY} --num_byzantine=4 --attack=ipm', '`--num_byzantine` must be'
    ),
    'partition_with_a_wrong_option': (
        'train --algo=fedavg --partition=dirichlet[beta=1]', 'dirichlet'
    ),
    'partition_with_a_wrong_value': (
        'train --algo=fedavg --partition=dirichlet[alpha=-1]', 'alpha'
    ),
    'partition_with_a_word': (
        'train --algo=fedavg --partition=dirichlet[alpha=x]', 'alpha'
    ),
    'brackets_that_do_not_close': (
        'train --algo=fedavg --partition=dirichlet[alpha=1', 'dirichlet[alpha=1'
    ),
    'unknown_model': (f'{_TINY} --model=mpl', '`--model` must be one of'),
    'unknown_rule': (
        f'{_TINY} --fedavg_aggregator=medain', '`--fedavg_aggregator` must be'
    ),
    'schedule_without_rounds': (
        f'{_TINY} --fedavg_learning_rate_schedule=cosine',
        '`--fedavg_learning_rate_rounds` must be',
    ),
    'schedule_rounds_of_words': (
        f'{_TINY} --fedavg_learning_rate_schedule=steps'
        ' --fedavg_learning_rate_rounds=1:b',
        '`--fedavg_learning_rate_rounds` must be',
    ),
    'schedule_rounds_beyond_an_int32': (
        f'{_TINY} --fedavg_learning_rate_schedule=cosine'
        ' --fedavg_learning_rate_rounds=9999999999',
        '`--fedavg_learning_rate_rounds` must be',
    ),
    'finetune_steps_beyond_an_int32': (
        f'{_TINY} --finetune_steps=0,9999999999', '`--finetune_steps` must be'
    ),
    'finetune_steps_of_other_digits': (
        f'{_TINY} --finetune_steps=0,٣', '`--finetune_steps` must be'
    ),
    'epochs_range_that_falls': (
        'train --algo=fedprox[epochs_range=5:1]', '`--fedprox_epochs_range`'
    ),
    'tiers_of_words': (
        'train --algo=fedhm[tiers=1:b]', '`--fedhm_tiers`'
    ),
    'tiers_of_owners_of_words': (
        'train --algo=perm[tiers=1:b]', '`--perm_tiers` must be all, all_small'
    ),
    'tiers_of_a_model_of_one_width': (
        'train --algo=perm[tiers=1:0.5]',
        '`--model` must be one whose hidden layers can be made narrower, found'
        ' logistic_regression. Tip: --model=mlp can.',
    ),
    'tiers_of_owners_that_change': (
        'train --algo=perm[tiers=1:0.5] --model=mlp --tier_assignment=dynamic',
        '`--tier_assignment` must be fixed for perm[tiers], whose clients own',
    ),
    'tiers_and_sketches': (
        'train --algo=perm[tiers=1:0.5,sketch=64] --model=mlp',
        '`--perm_sketch` must be left at 0 unless tiers=none',
    ),
    'tiers_and_models_of_clusters': (
        'train --algo=perm[tiers=1:0.5,models=2] --model=mlp',
        '`--perm_models` must be left at 0 unless tiers=none',
    ),
    'tiers_and_debiased_distances': (
        'train --algo=perm[tiers=1:0.5,debias=variance] --model=mlp',
        '`--perm_debias` must be left at none unless models=0 and tiers=none',
    ),
    'tiers_and_a_robust_rule': (
        'train --algo=perm[tiers=1:0.5,aggregator=median] --model=mlp',
        '`--perm_aggregator` must be mean with `--perm_tiers`',
    ),
    'compare_without_tiers': (
        'train --algo=perm --perm_compare=all',
        '`--perm_compare` must be left at intersection unless tiers!=none',
    ),
    'two_equals_signs': ('train --algo=fedavg[a=b=c]', 'fedavg'),
    'empty_algo': ('train --algo=', 'A name must be of the form'),
    'comma_in_algo': ('train --algo=fedavg,perm', 'A name must be of the form'),
    'patience_without_auto': (
        f'{_TINY} --rounds=3 --patience=2', '`--patience` must be left out'
    ),
    'max_rounds_without_auto': (
        f'{_TINY} --max_rounds=9', '`--max_rounds` must be left out'
    ),
    'patience_of_0': (f'{_TINY} --rounds=auto --patience=0', '`--patience`'),
    'auto_without_validation': (
        f'{_TINY} --rounds=auto --validation_fraction=0',
        '`--validation_fraction` must be > 0 with --rounds=auto, found 0',
    ),
    'auto_between_ends_of_epochs': (
        'train --algo=perm[schedule=permutation] --num_clients=4'
        ' --rounds=auto --eval_every=3',
        '`--eval_every` must divide',
    ),
    'auto_that_ends_too_early': (
        'train --algo=perm --num_clients=4 --rounds=auto --max_rounds=10',
        '`--max_rounds` must be',
    ),
    'rounds_of_another_word': (
        f'{_TINY} --rounds=Auto', '`--rounds` must be an integer >= 1 or auto'
    ),
    'double_dash_alone': (f'{_TINY} -- x', "found 'x'"),
    'finetune_steps_that_fall': (
        f'{_TINY} --finetune_steps=3,1', '`--finetune_steps` must be increasing'
    ),
    'validation_of_nobody': (
        f'{_TINY} --validation_fraction=0.001',
        '`--validation_fraction` must leave at least one client of task'
        ' digits',
    ),
    'another_way_with_nan': (
        f'{_TINY} --on_non_finite=skip',
        '`--on_non_finite` must be one of stop, drop',
    ),
    'held_out_of_a_table_of_models': (
        'train --algo=oracle_groups --num_clients=4 --partition=iid'
        ' --holdout_clients=1',
        '`--holdout_clients` must be 0',
    ),
    'rule_of_too_few_clients': (
        f'{_TINY} --num_byzantine=1 --fedavg_aggregator=krum',
        '`--fedavg_aggregator` krum[f=1] needs n > 2 f + 2',
    ),
    'rule_without_a_rule_in_it': (
        f'{_TINY} --fedavg_aggregator=bucketing',
        'bucketing must have a rule in it',
    ),
    'unknown_flag': (
        'train --algo=fedavg --fedavg_lerning_rate=1',
        'is not a flag. Tip: --fedavg_learning_rate',
    ),
    'unknown_shared_flag': ('train --round=3', 'Tip: --rounds'),
    'unknown_method': ('train --algo=fedavgg', '`--algo` must be one of'),
    'unknown_task': ('train --task=digit', '`--task` must be one of'),
    'unknown_partition': (
        'train --algo=fedavg --partition=sorted', '`--partition` must be one of'
    ),
    'foreign_method_flag': (
        'train --algo=fedavg --pfedme_inner_lr=1',
        'because it is a flag of method pfedme, found method fedavg.',
    ),
    'foreign_task_flag': (
        'train --algo=fedavg --synthetic_groups_mu=1',
        'because it is a flag of task synthetic_groups, found task digits.',
    ),
    'positional': ('train --algo=fedavg perm', "(--name=value), found 'perm'."),
    'cohort_too_large': (
        f'{_TINY} --clients_per_round=5',
        '`--clients_per_round` must be >= 0 and <= the 4 clients',
    ),
    'all_held_out': (
        f'{_TINY} --holdout_clients=4',
        '`--holdout_clients` must be >= 0 and < the 4 clients',
    ),
    'out_of_range': (
        'train --algo=fedavg --fedavg_learning_rate=-1',
        '`--fedavg_learning_rate` must be a number > 0.0, found -1.0.',
    ),
    'not_a_number': (
        'train --rounds=ten',
        "`--rounds` must be an integer >= 1 or auto, found 'ten'.",
    ),
    'negative_seed': ('train --seed=-1', '`--seed` must be an integer >= 0'),
    'bad_choice': (
        'train --client_weighting=size',
        '`--client_weighting` must be one of uniform, examples, batches',
    ),
    'no_such_device': (
        f'{_TINY} --device=gpu:63', '`--device` must be one of this machine'
    ),
    'workers_of_another_runtime': (
        f'{_TINY} --workers=localhost:8000',
        '`--workers` must be left out with --runtime=fused',
    ),
    'no_workers': (
        f'{_TINY} --runtime=remote',
        '`--workers` must name each worker once, at least one, found none.',
    ),
    'not_an_address': (
        f'{_TINY} --runtime=remote --workers=here',
        "`--workers` must be a list of addresses host:port, found 'here'.",
    ),
    'strategy_of_another_runtime': (
        f'{_TINY} --runtime=native --strategy=loop',
        '`--strategy` must be left out with --runtime=native, found loop.'
        ' Tip: it needs --runtime=fused.',
    ),
    'tf32_of_another_runtime': (
        f'{_TINY} --runtime=native --tf32',
        '`--tf32` must be left out with --runtime=native, found True. Tip: it'
        ' needs --runtime=fused.',
    ),
    'connect_seconds_of_another_runtime': (
        f'{_TINY} --connect_seconds=600',
        '`--connect_seconds` must be left out with --runtime=fused',
    ),
    'round_seconds_of_another_runtime': (
        f'{_TINY} --runtime=native --round_seconds=9',
        '`--round_seconds` must be left out with --runtime=native',
    ),
    'tls_of_another_runtime': (
        f'{_TINY} --tls_ca=a.pem',
        '`--tls_ca` must be left out with --runtime=fused',
    ),
    'certificate_without_key': (
        f'{_TINY} --runtime=remote --workers=localhost:1 --tls_cert=a.pem'
        ' --tls_ca=a.pem',
        '`--tls_key` must be given with the other two of `--tls_cert`,',
    ),
    'no_such_certificate': (
        f'{_TINY} --runtime=remote --workers=localhost:1 --tls_cert=/none.pem'
        ' --tls_key=b --tls_ca=c',
        '`--tls_cert` must be a file, found /none.pem.',
    ),
    'contradiction': (
        'train --algo=fedavg --fedavg_local_epochs=1',
        'Exactly one of `--fedavg_local_steps` and `--fedavg_local_epochs`',
    ),
    'no_effect_in_this_variant': (
        'train --algo=perm[variant=two_stage] --num_clients=4 --partition=iid'
        ' --train_fraction=0.1 --perm_warmup_rounds=7',
        '`--perm_warmup_rounds` must be left at 10 unless variant=single_loop'
        ' because it has no effect otherwise, found 7 with variant=two_stage.',
    ),
    'oracle_without_clusters': (
        'train --algo=floral --floral_router=oracle --num_clients=4'
        ' --partition=iid --train_fraction=0.1 --partition=dirichlet[alpha=1]',
        '`--floral_router` must be learned unless',
    ),
    'brackets_contradict': (
        'train --algo=fedavg[learning_rate=0.1] --fedavg_learning_rate=0.2',
        '`--fedavg_learning_rate` must agree with the brackets',
    ),
    'unknown_bracket': (
        'train --algo=fedavg[rate=0.1]', 'An option of fedavg must be one of'
    ),
    'missing_value': ('train --rounds', 'rounds'),
    'bad_boolean': ('train --resume=maybe', 'resume'),
    'data_dir_of_embedded_task': (
        'train --algo=fedavg --data_dir=/tmp', '`--data_dir` must not be given'
    ),
    'unknown_exported_client': (
        f'{_TINY} --export_clients=0,9',
        "`--export_clients` must be numbers of clients that train, found '9'.",
    ),
}

DATA = {
    **{
        f'npz_{name}': (f'{_NPZ}/{name}.npz', f'{name}.npz')
        for name in ('nan', 'scalar', 'no_client', 'cut', 'void', 'terabytes')
    },
    'csv_of_another_encoding': (f'{_CSV}/latin.csv', 'latin.csv'),
    'npz_of_several_files': (_NPZ, '`--data_dir` must hold one .npz file'),
    'csv_where_there_is_none': (f'{_CSV}/empty', 'found none in'),
    'csv_that_is_no_csv': (f'{_CSV}/good.npz', 'good.npz'),
    'npz_that_is_no_npz': (f'{_NPZ}/good.csv', 'good.csv'),
    'other_partition_of_own_data': (
        f'{_NPZ}/good.npz --partition=iid', '`--partition` must be by_client'
    ),
    'more_clients_than_in_the_data': (
        f'{_NPZ}/good.npz --num_clients=9', '`--num_clients` must be <= the 2'
    ),
    'classes_of_regression': (
        f'{_NPZ}/good.npz --npz_kind=regression --npz_num_classes=3',
        '`--npz_num_classes` must be 0',
    ),
    'no_idx_files': (
        'train --algo=fedavg --task=mnist --data_dir={f}/empty', 'empty'
    ),
    'no_emnist_file': (
        'train --algo=fedavg --task=emnist --data_dir={f}/empty', 'empty'
    ),
}

FOLDERS = {
    'output_is_a_file': (
        f'{_TINY} --output_dir={{f}}/file', '/file, which is not a folder'
    ),
    'output_below_a_file': (
        f'{_TINY} --output_dir={{f}}/file/a/b', '/file, which is not a folder'
    ),
    'output_where_nobody_can_write': (
        f'{_TINY} --output_dir=/proc/run', '`--output_dir` must be a folder that'
    ),
    'compare_into_a_file': (
        'compare --algos=fedavg --output_dir={f}/file', 'which is not a folder'
    ),
    'compare_tuned_into_a_file': (
        f'{_TUNED} --output_dir={{f}}/file', 'which is not a folder'
    ),
    'robustness_into_a_file': (
        f'{_ROBUST} --output_dir={{f}}/file', 'which is not a folder'
    ),
    'cost_into_a_file': (
        'cost --algo=fedavg --output_dir={f}/file', 'which is not a folder'
    ),
    'pareto_into_a_file': (
        'pareto --output_dir={f}/file', 'which is not a folder'
    ),
    'sweep_splits_into_a_file': (
        'sweep_splits --output_dir={f}/file', 'which is not a folder'
    ),
    'plot_into_a_file': (
        'plot --runs={f}/runs --output_dir={f}/file', 'which is not a folder'
    ),
    'resume_with_another_kind_of_rounds': (
        f'{_RESUME}/mixing_vector --rounds=auto', 'mixing.npy'
    ),
    **{
        f'resume_{name}': (f'{_RESUME}/{name}', f'{name}/{file} {_ONCE}')
        for name, file in (
            ('config_garbage', 'config.json'),
            ('config_list', 'config.json'),
            ('config_no_variant', 'config.json'),
            ('config_unknown_method', 'config.json'),
            ('config_brackets', 'config.json'),
            ('config_unknown_flag', 'config.json'),
            ('config_bad_value', 'config.json'),
            ('config_given_list', 'config.json'),
            ('metrics_garbage', 'metrics.csv'),
            ('metrics_again', 'metrics.csv'),
            ('clients_word', 'clients.csv'),
            ('mixing_garbage', 'mixing.npy'),
            ('checkpoint_garbage', 'checkpoint.sqlite'),
            ('position_garbage', 'checkpoint.sqlite'),
            ('position_list', 'checkpoint.sqlite'),
            ('position_word', 'checkpoint.sqlite'),
            ('position_other', 'checkpoint.sqlite'),
            ('position_negative', 'checkpoint.sqlite'),
            ('position_dropped', 'checkpoint.sqlite'),
        )
    },
    **{
        f'plot_{name}': (f'plot --runs={{f}}/runs/{name}', f'{file} {_ONCE}')
        for name, file in (
            ('config_garbage', 'config.json'),
            ('config_list', 'config.json'),
            ('metrics_garbage', 'metrics.csv'),
            ('metrics_binary', 'metrics.csv'),
            ('metrics_void', 'metrics.csv'),
            ('metrics_short', 'metrics.csv'),
            ('metrics_long', 'metrics.csv'),
            ('metrics_word', 'metrics.csv'),
            ('metrics_fraction', 'metrics.csv'),
            ('clients_word', 'clients.csv'),
            ('clients_column', 'clients.csv'),
            ('data_word', 'data.csv'),
            ('finetuning_column', 'finetuning.csv'),
            ('mixing_garbage', 'mixing.npy'),
            ('mixing_vector', 'mixing.npy'),
            ('mixing_integers', 'mixing.npy'),
            ('mixing_terabytes', 'mixing.npy'),
            ('router_garbage', 'router.npy'),
        )
    },
}

CONFIGS = {
    'config_that_is_not_there': (
        'train --config={f}/none.yaml', '`--config` must name a file'
    ),
    'config_that_is_a_folder': (
        'train --config={f}/empty', '`--config` must name a file'
    ),
    **{
        f'config_{name}': (f'train --config={{f}}/{name}.yaml', part)
        for name, part in dict(
            unknown='line 2: `--lerning_rate` is not a flag. Tip: --',
            bad_type="line 2: `--rounds` must be an integer >= 1 or auto, found",
            out_of_range='line 3: `--fedavg_learning_rate` must be',
            twice='line 3: a flag must be given once, found rounds again after',
            a_list='line 2: rounds must have one value',
            nested='line 2: algo must have one value',
            nothing='line 2: rounds must have one value',
            code='line 1: algo must have one value',
            syntax='`--config` must name a YAML file, found',
            tab='line 2', several='several.yaml, line 2', empty='found nothing',
            a_text='found a scalar', no_name='line 1: a flag must have a name',
            itself='line 1: `--config` is not a flag', binary='binary.yaml',
            deep='nested too deeply', of_no_run='a file of flags',
            boolean='line 2: `--resume` must be true or false',
        ).items()
    },
    'config_with_a_flag_of_another_program': (
        'compare --config={f}/unknown.yaml', '`--algo` is not a flag'
    ),
    'config_against_another_method': (
        'train --algo=perm --config={f}/of_fedavg.yaml',
        'because it is a flag of method fedavg, found method perm.',
    ),
}

PROGRAMS = {
    'seeds_twice_in_other_words': (
        'compare --algos=fedavg --seeds=1,01', '`--seeds` must be distinct'
    ),
    'seeds_beyond_an_int64': (
        'compare --algos=fedavg --seeds=0,9223372036854775808', '`--seeds` must'
    ),
    'seeds_of_other_digits': ('compare --seeds=٣', '`--seeds` must be distinct'),
    'seeds_of_nothing': ('compare --seeds=', '`--seeds` must be distinct'),
    'negative_seeds': ('compare --seeds=0,-1', '`--seeds` must be distinct'),
    'algos_of_nothing': ('compare --algos=', '`--algos` must be one or more'),
    'algos_that_do_not_close': ('compare --algos=fedavg[', 'fedavg['),
    'compare_with_a_stray_word': ('compare fedavg', "found 'fedavg'"),
    'grid_of_nothing': (f'{_TUNED} --grid=', '`--grid` must be'),
    'grid_without_values': (f'{_TUNED} --grid=learning_rate', '`--grid` must'),
    'grid_with_a_value_twice': (
        f'{_TUNED} --grid=learning_rate:0.1,0.10', 'distinct values'
    ),
    'grid_of_no_hyperparameter': (
        f'{_TUNED} --grid=speed:1,2', 'An option of fedavg must be one of'
    ),
    'grid_of_a_method_that_is_not_there': (
        f'{_TUNED} --grid=perm.warmup_rounds:1,2', '`--grid` must be for'
    ),
    'grid_out_of_range': (
        f'{_TUNED} --grid=learning_rate:-1,1', 'must be a number > 0.0'
    ),
    'tuned_without_validation': (
        f'{_TUNED} --validation_fraction=0', '`--validation_fraction` must be'
    ),
    'plot_of_nothing': ('plot', '`--runs` must name folders'),
    'plot_of_no_folder': ('plot --runs={f}/none', '`--runs` must name folders'),
    'plot_of_a_file': ('plot --runs={f}/file', '`--runs` must name folders'),
    'claims_of_nothing': (f'{_CHECK} --expect=', '--expect'),
    'claims_of_no_relation': (f'{_CHECK} --expect=a', '`--expect` must'),
    'claims_about_no_comparison': (f'{_CHECK} --expect=a<b', 'compare wrote'),
    'claims_by_another_statistic': (
        f'{_CHECK} --expect=a<b --statistic=mode', '`--statistic` must be one of'
    ),
    'cost_of_an_unknown_model': ('cost --model=vgg', '`--model` must be one of'),
    'cost_of_no_shape': (
        'cost --algo=fedavg --input_shape=3y2', '`--input_shape` must be'
    ),
    'cost_of_two_lists': ('cost --algo=a --algos=b', 'Only one of `--algo`'),
    'cost_of_runs_without_accuracy': (
        'cost --runs={f}/runs', 'must be given together'
    ),
    'cost_of_runs_that_are_not_there': (
        'cost --runs={f}/empty --accuracy=0.5', '`--runs` must'
    ),
    'cost_of_a_damaged_run': (
        'cost --runs={f}/runs/metrics_word --accuracy=0.5', 'metrics.csv'
    ),
    'pareto_of_a_negative_eigenvalue': ('pareto --mu=-1', '`--mu` must be'),
    'pareto_of_an_unknown_figure': ('pareto --figure=99', '`--figure` must be'),
    'pareto_of_an_unknown_family': ('pareto --family=x', '`--family` must be'),
    'pareto_of_falling_eigenvalues': ('pareto --mu=10 --L=1', '`--L` must be'),
    'robust_rules_twice': (f'{_ROBUST} --rules=mean,mean', '`--rules` must be'),
    'robust_unknown_rule': (f'{_ROBUST} --rules=medain', 'medain'),
    'robust_unknown_attack': (f'{_ROBUST} --attacks=magic', 'magic'),
    'robust_method_without_mean': (
        f'{_ROBUST} --algo=local_only', '`--algo` must be a method with an'
    ),
    'robust_without_attackers': (
        f'{_ROBUST} --num_byzantine=0', '`--num_byzantine` must be an integer'
    ),
    'robust_seeds_of_words': (f'{_ROBUST} --seeds=one', '`--seeds` must be'),
    'sweep_of_an_unknown_split': (
        'sweep_splits --splits=middle --model=mlp', 'middle'
    ),
    'algos_twice': (
        'compare --algos=fedavg,fedavg',
        '`--algos` must be one or more distinct',
    ),
    'one_seed_of_several': (
        'compare --algos=fedavg --seed=1', 'is not a flag. Tip: --seeds'
    ),
    'flag_of_no_variant': (
        'compare --algos=perm[variant=two_stage],fedavg'
        ' --perm_warmup_rounds=7',
        '`--perm_warmup_rounds` must be left out because it has no effect in'
        ' any variant of `--algos`, found 7.',
    ),
    'grid_of_one_of_two_methods': (
        'compare_tuned --algos=fedavg,floral'
        ' --grid=router_learning_rate:0.1,0.2',
        'An option of fedavg must be one of',
    ),
    'grid_without_effect': (
        f'{_TUNED} --grid=learning_rate_decay:0.1,0.2',
        '`--fedavg_learning_rate_decay` must be left at',
    ),
    'grid_in_brackets': (
        'compare_tuned --algos=fedavg[learning_rate=1]',
        '`--algos` must leave learning_rate to `--grid`',
    ),
    'grid_as_a_flag': (
        f'{_TUNED} --fedavg_learning_rate=1',
        '`--fedavg_learning_rate` must be left out because it has no effect',
    ),
    'cost_of_one_class': (
        'cost --num_classes=1', '`--num_classes` must be >= 2, or 0'
    ),
    'cost_of_no_image': (
        'cost --input_shape=12', '`x` must be images of shape'
    ),
    'cost_of_what_no_run_reached': (
        'cost --runs={f}/runs/good --accuracy=0.95',
        'at most 0.5000, found 0.95',
    ),
    'cost_of_more_than_all': (
        'cost --runs={f}/runs/good --accuracy=1.5',
        '`--accuracy` must be a number',
    ),
    'cost_of_a_method_that_does_not_fit': (
        'cost --algo=fedper --model=logistic_regression',
        'fedper needs a model with hidden layers',
    ),
    'pareto_of_other_methods': (
        'pareto --figure=12 --algos=fedavg', '`--algos` must be left out with'
    ),
    'pareto_of_a_large_gamma': (
        'pareto --gamma=0.1',
        '`--gamma` must be < 1 / (L + alpha) = 0.1 because',
    ),
    'pareto_of_alpha_without_use': (
        'pareto --alpha=1',
        '`--alpha` must be 0 with family fedavg, found 1.0. Tip:',
    ),
    'pareto_of_no_step': (
        'pareto --num_steps=0',
        '`--num_steps` must be an integer >= 1, found 0.',
    ),
    'pareto_of_the_L_of_a_figure': (
        'pareto --figure=2 --L=3',
        '`--L` must be left out with --figure=2 because',
    ),
    'pareto_of_one_accuracy': (
        'pareto --accuracy=3',
        '`--accuracy` must be left out with one point because',
    ),
    'pareto_of_rounds_of_a_task': (
        'pareto --task=digits --rounds=3',
        '`--rounds` must be left out with one point and --task because',
    ),
    'pareto_of_gamma_to_recommend': (
        'pareto --recommend --gamma=1',
        '`--gamma` must be left out with --recomm',
    ),
    'pareto_of_the_L_of_a_task': (
        'pareto --task=digits --L=3',
        '`--L` must be left out with one point and --task because',
    ),
    'pareto_of_clients_without_a_task': (
        'pareto --num_clients=3',
        '`--num_clients` must be left out with one point',
    ),
    'robust_rule_of_too_few': (
        'robustness --num_clients=3 --num_byzantine=1 --rules=krum',
        'needs n > 2 f + 2, found 4 clients',
    ),
    'robust_with_too_many_attackers': (
        'robustness --num_clients=10 --num_byzantine=10',
        'less than half of the clients (20)',
    ),
    'robust_rule_in_brackets': (
        f'{_ROBUST} --algo=ffgg[aggregator=median]',
        'must leave the aggregator to',
    ),
    'robust_task_without_an_optimum': (
        'robustness --task=floral_mlp --algo=fedavg --num_byzantine=2',
        '`--task` must have a known optimum or classes',
    ),
    'sweep_of_a_whole_model': (
        'sweep_splits --algo=fedavg',
        'must be a method that splits the model, one of',
    ),
    'sweep_of_a_layer_that_is_not_there': (
        'sweep_splits --splits=norm --model=mlp_20',
        "found 'norm', which matches none",
    ),
    'sweep_of_a_split_twice': (
        'sweep_splits --splits=bias,bias',
        '`--splits` must be one or more distinct',
    ),
    'sweep_in_brackets': (
        'sweep_splits --algo=fedper[split=bias]',
        '`--algo` must leave split to `--splits`',
    ),
}

AFTER = {
    'fork_of_no_run': (
        'train --fork={f}/empty', '`--fork` must name the folder of a run, found'
    ),
    'fork_that_is_not_there': ('train --fork={f}/none', '`--fork` must name'),
    'fork_of_a_damaged_run': (
        'train --fork={f}/runs/config_list', f'config_list/config.json {_ONCE}'
    ),
    'fork_of_a_damaged_checkpoint': (
        'train --fork={f}/runs/checkpoint_garbage', f'checkpoint.sqlite {_ONCE}'
    ),
    'fork_with_other_events': (
        'train --fork={f}/runs/good --delays=constant', '`--delays` must be'
    ),
    'fork_with_other_clients': (
        'train --fork={f}/runs/good --seed=3', '`--seed` must be'
    ),
    'export_of_another_kind': ('train --export=onnx', '`--export` must be one'),
    'export_of_nobody': (
        f'{_TINY} --export_clients=4', '`--export_clients` must be numbers of'
    ),
    'export_of_a_stranger': (
        f'{_CSV}/good.csv --export_clients=zoe', "that train, found 'zoe'"
    ),
    'evaluate_nothing': ('evaluate --run={f}/empty', '`--run` must name the'),
    'evaluate_a_damaged_run': (
        'evaluate --run={f}/runs/metrics_word', f'metrics.csv {_ONCE}'
    ),
    'evaluate_with_a_stray_flag': (
        'evaluate --runs={f}/runs', '`--runs` is not a flag'
    ),
    'predict_without_models': (
        'predict --run={f}/runs/mixing_vector', '`--run` must name a folder with'
    ),
    'predict_with_a_damaged_record': (
        'predict --run={f}/exported_garbage', f'export.json {_ONCE}'
    ),
    'predict_with_other_exports': (
        'predict --run={f}/exported_npz --data_dir={f}/good.csv',
        '`--run` must hold SavedModels, found other exports',
    ),
    'predict_of_nothing': (
        'predict --run={f}/exported --data_dir={f}/none.csv',
        '`--data_dir` must exist, found',
    ),
    'predict_by_a_stranger': (
        'predict --run={f}/exported --data_dir={f}/good.npz --client=zoe',
        "`--client` must be one whose model was exported (ann), found",
    ),
    'predict_of_another_shape': (
        'predict --run={f}/exported_wide --data_dir={f}/good.npz --client=ann',
        'must hold examples of shape [7] as in training, found [2].',
    ),
    'predict_without_clients': (
        'predict --run={f}/exported --data_dir={f}/no_client.npz', 'client'
    ),
}

ALL = {**FLAGS, **DATA, **FOLDERS, **CONFIGS, **PROGRAMS, **AFTER}
