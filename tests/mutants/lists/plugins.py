"""Planted faults of methods and tasks that other packages bring."""

from tests.mutants.faults import Fault

_TEST = 'tests/plugins_test.py::'
_CONSOLE = 'tests/console_test.py::'
_NAMED = (
    _TEST + 'test_a_module_is_imported_where_the_command_line_names_it'
)
_INSTALLED = _TEST + 'test_an_installed_plugin_is_in_the_programs'
_ASKED = _TEST + 'test_what_is_asked_for'
_BROKEN = _TEST + 'test_a_broken_plugin_is_left_out'

FAULTS = (
    Fault(
        'installed_not_found',
        what='What installed packages have is not looked for.',
        file='tff_pers/experiments/flags.py',
        old='  plugin_imports.load_installed()\n',
        new='',
        tests=(_INSTALLED,),
    ),
    Fault(
        'tasks_not_found',
        what='Of the entry points those of tasks are left out.',
        file='tff_pers/config/entry_points.py',
        old='      point for group in GROUPS for point in (',
        new='      point for group in GROUPS[:1] for point in (',
        tests=(_INSTALLED,),
    ),
    Fault(
        'not_recorded',
        what='A run does not say which modules it needs.',
        file='tff_pers/experiments/experiment.py',
        old='          given={**(given if brackets_win else asked_for), **imports},',
        new='          given=given if brackets_win else asked_for,',
        tests=(_NAMED,),
    ),
    Fault(
        'imported_from_a_folder',
        what='A folder of a run decides which modules are imported.',
        file='tff_pers/experiments/plugin_imports.py',
        old='    if name not in sys.modules:\n',
        new='    plugins.import_named(name)\n    if name not in sys.modules:\n',
        tests=(_NAMED,),
    ),
    Fault(
        'folder_unchecked',
        what='Nobody is told which module a run in a folder needs.',
        file='tff_pers/experiments/saved_runs.py',
        old="  if isinstance(config.get('given'), dict):\n",
        new="  if not isinstance(config.get('given'), dict):\n",
        tests=(_NAMED,),
    ),
    Fault(
        'one_word_alone',
        what='A flag and its value as two words are not understood.',
        file='tff_pers/experiments/startup.py',
        old='      found = value if equals else following',
        new='      found = value',
        tests=(_ASKED,),
    ),
    Fault(
        'flag_file_unchecked',
        what='Nobody is told which module a file of flags needs.',
        file='tff_pers/experiments/flags.py',
        old="    if 'import' in entries:\n",
        new="    if 'import' not in table:\n",
        tests=(_NAMED,),
    ),
    Fault(
        'broken_without_a_word',
        what='A plug-in that is broken is left out without a word.',
        file='tff_pers/experiments/plugin_imports.py',
        old='  for problem in problems:\n',
        new='  for problem in problems[:0]:\n',
        tests=(_BROKEN,),
    ),
    Fault(
        'name_not_registered',
        what='A module need not register the name that it is found by.',
        file='tff_pers/plugins.py',
        old='      if point.name not in known.names():',
        new='      if not known.names():',
        tests=(_BROKEN,),
    ),
    Fault(
        'help_with_tensorflow',
        what='Stand-ins stay behind in the modules of plug-ins.',
        file='tff_pers/experiments/startup.py',
        old='(*_OURS, *_plugins(sys.argv))',
        new='_OURS',
        tests=(_TEST + 'test_the_help_knows_it_without_tensorflow',),
    ),
    Fault(
        'a_battery_forgotten',
        what='The import does not bring what a task promises.',
        file='tff_pers/testing/contracts.py',
        old='from tff_pers.testing.task_contract import *\n',
        new='',
        tests=(_TEST + 'test_its_tests_are_all_batteries',),
    ),
    Fault(
        'strangers_first',
        what='A folder of another package takes precedence over ours.',
        file='tff_pers/console.py',
        old='      path.insert(position, root)',
        new='      path.insert(position + 1, root)',
        tests=(
            _CONSOLE + 'test_a_program_does_not_import_the_folders_of_a_stranger',
            _CONSOLE + 'test_ours_come_before_the_first_that_is_not',
        ),
    ),
    Fault(
        'program_forgotten',
        what='A program of the package has no entry point of the console.',
        file='tff_pers/console.py',
        old="'sweep_splits', 'train', 'tune',",
        new="'train', 'tune',",
        tests=(_CONSOLE + 'test_every_program_of_the_package_is_one',),
    ),
    Fault(
        'front_door_imports_all',
        what='Importing the package imports TensorFlow.',
        file='tff_pers/__init__.py',
        old="__version__ = '0.1.0'\n",
        new="__version__ = '0.1.0'\nimport tensorflow\n",
        tests=(
            'tests/package_test.py'
            '::test_importing_it_is_cheap_and_says_what_there_is',
        ),
    ),
    Fault(
        'public_name_of_another_module',
        what='A public name is looked for where it is not.',
        file='tff_pers/__init__.py',
        old="    'tff_pers.composition': ('compose',),",
        new="    'tff_pers.composition.deployment': ('compose',),",
        tests=(
            'tests/package_test.py::test_a_public_name_is_there_and_documented',
        ),
    ),
)
