"""The account: network in, privacy report out.

guarantee      the exact (ε, δ) of every device           report           what each ε means; table, JSON
event          ε of a stay of several inferences          picture          the figure of a report
reasons        the reason why an ε is infinite            words            an infinite ε as text and in JSON
calibration    the least noise for a target ε             assumptions      what each ε assumes, as sentences
budget         one ε for score and feature                games            what each scheme leaks: its game
lifetime       slots that a total budget allows
received       what the adversary receives                errors           imperfect channel knowledge
stream         many inferences; at_least: from below      eavesdropper     several antennas; waveform: every sample
reconstruction the error of the best estimate             calibrated_odds  the least noise for target odds
odds           how often a guess at a secret is right     guesses          odds as data, and in words
exchange       what is spent, in other tools' units       others           together with what other tools spent
statement      one page for non-experts                   plain_words      its sentences; periods: its numbers
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
