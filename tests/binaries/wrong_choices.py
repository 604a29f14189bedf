"""Wrong inputs of programs that choose, and damaged runs.

As in `wrong_inputs`, which has the others.
"""

_TUNE = 'tune --algos=fedavg --num_clients=4 --partition=iid'
_CHOOSE = 'choose --algos=fedavg,local_only --num_clients=4 --partition=iid'
_FORK = 'train --fork={f}/runs'
_RUNS = '{f}/runs'

CHOICES = {
    'tune_without_trials': (f'{_TUNE} --trials=0', '`--trials` must be'),
    'tune_with_trials_and_time': (
        f'{_TUNE} --trials=3 --budget=2m', '`--trials` must be left out'
    ),
    'tune_without_validation': (
        f'{_TUNE} --validation_fraction=0', '`--validation_fraction` must be'
    ),
    'tune_without_seeds': (f'{_TUNE} --seeds=', '`--seeds` must be distinct'),
    'tune_with_a_seed_twice': (f'{_TUNE} --seeds=1,01', '`--seeds` must be'),
    'tune_of_an_unknown_method': ('tune --algos=fedavgg', 'fedavgg'),
    'tune_with_patience_alone': (
        f'{_TUNE} --patience=3', '`--patience` must be left out'
    ),
    'tune_into_a_file': (f'{_TUNE} --output_dir={{f}}/file', 'is not a folder'),
    'choose_in_no_time': (f'{_CHOOSE} --budget=0m', '`--budget` must be'),
    'choose_in_minutes_of_words': (
        f'{_CHOOSE} --budget=soon', '`--budget` must be'
    ),
    'choose_without_a_unit': (f'{_CHOOSE} --budget=20', '`--budget` must be'),
    'choose_with_a_method_twice': (
        'choose --algos=fedavg,fedavg', '`--algos` must be one or more distinct'
    ),
    'choose_with_a_flag_of_another_method': (
        f'{_CHOOSE} --perm_sketch=3', 'because it is a flag of method perm'
    ),
    'choose_into_a_file': (f'{_CHOOSE} --output_dir={{f}}/file', 'not a folder'),
    'choose_with_negative_jobs': (f'{_CHOOSE} --jobs=-1', '`--jobs` must be'),
    'robustness_of_any_length': (
        'robustness --num_clients=4 --rounds=auto',
        '`--rounds` must be an integer here',
    ),
    'tune_in_no_time': (
        f'{_TUNE} --budget=0m', '`--budget` must be a number > 0'
    ),
    'choose_with_trials_and_time': (
        f'{_CHOOSE} --trials=3 --budget=9s',
        '`--budget` must be left out with --trials',
    ),
    'choose_without_splits': (f'{_CHOOSE} --splits=0', '`--splits` must be'),
    'choose_with_one_seed': (f'{_CHOOSE} --seed=0', '`--seed` is not a flag'),
    'choose_without_data': ('choose --task=npz', '`--data_dir`'),
}

DAMAGED = {
    'fork_of_a_damaged_position': (
        f'{_FORK}/position_garbage', 'checkpoint.sqlite'
    ),
    'evaluation_of_a_damaged_position': (
        f'evaluate --run={_RUNS}/position_list', 'checkpoint.sqlite'
    ),
    'report_of_nothing': ('report', '`--runs` must name folders'),
    'report_of_a_damaged_table': (
        f'report --runs={_RUNS}/metrics_word', 'metrics.csv'
    ),
    'report_of_a_damaged_matrix': (
        f'report --runs={_RUNS}/mixing_terabytes', 'mixing.npy'
    ),
    'report_of_a_folder_that_is_not_there': (
        'report --runs={f}/runs/good,{f}/none', '`--runs` must name folders'
    ),
}

ALL = {**CHOICES, **DAMAGED}
