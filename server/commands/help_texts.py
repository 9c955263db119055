"""What `/?` says in a talk."""

from __future__ import annotations

from typing import Final

COMMANDS: Final = '''\
Available Commands:
  /set            Change how the talk goes on
  /show           Look at the model
  /list           List the models of the server
  /load <model>   Go on with another model
  /save <model>   Make a model of this talk
  /clear          Forget what was said
  /bye            Leave
  /?, /help       This help; /? set, /? show
  /? shortcuts    Keys for editing a line

""" begins a message of several lines, and ends it.
'''

SET: Final = """\
Available Commands:
  /set parameter ...     An option, such as temperature
  /set system <string>   The system message
  /set history           Keep what is typed
  /set nohistory         Do not keep it
  /set wordwrap          Break lines between words
  /set nowordwrap        Leave lines as they come
  /set format json       Answers in JSON
  /set noformat          Answers in any form
  /set verbose           Show what an answer measured
  /set quiet             Do not show it
  /set think [level]     Think before answering
  /set nothink           Answer at once
"""

SHOW: Final = """\
Available Commands:
  /show info         Architecture, size, capabilities
  /show license      The licence
  /show modelfile    The Modelfile
  /show parameters   The options of the model, and those set here
  /show system       The system message
  /show template     The chat template
"""

SHORTCUTS: Final = """\
Available keyboard shortcuts:
  Ctrl + a            To the beginning of the line
  Ctrl + e            To its end
   Alt + b            A word back
   Alt + f            A word forward
  Ctrl + k            Delete to the end of the line
  Ctrl + u            Delete to its beginning
  Ctrl + w            Delete the word before the cursor

  Ctrl + l            Clear the screen
  Ctrl + g            Write the message in an editor
  Ctrl + c            Stop the answer
  Ctrl + d            Leave (/bye)
"""

PARAMETERS: Final = """\
Available Parameters:
  /set parameter seed <int>                   Seed of the random numbers
  /set parameter num_predict <int>            Most tokens of an answer
  /set parameter top_k <int>                  Draw from so many of the likeliest tokens
  /set parameter top_p <float>                Draw from the likeliest tokens with this probability in sum
  /set parameter min_p <float>                Draw from tokens at least this likely, relative to the likeliest
  /set parameter num_ctx <int>                Tokens that the conversation may have
  /set parameter temperature <float>          How far answers may stray
  /set parameter repeat_penalty <float>       How much repetitions are held back
  /set parameter repeat_last_n <int>          How many tokens back a repetition counts
  /set parameter stop <string> <string> ...   What ends an answer
"""
