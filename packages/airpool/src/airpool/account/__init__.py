"""The account: network in, privacy report out.

guarantee      the exact (ε, δ) of every device           report           what each ε means; table, JSON, figure
event          ε of a stay of several inferences          assumptions      what each ε assumes; why one is infinite
calibration    the least noise for a target ε or odds, of score and feature together
lifetime       slots that a total budget allows           received         what the adversary receives
views          a question; what each adversary sees of it, as a leak
errors         imperfect channel knowledge                eavesdropper     several antennas
use            one use of a network, as a ledger stores it
whatif         ε if something were otherwise              at_least         ε from below
reconstruction the error of the best estimate             odds             how often a guess at a secret is right
exchange       what is spent, in other tools' units, and together with what they spent
statement      one page for non-experts                   plain_words      its numbers and sentences
theorem1       the paper's claim, printed beside ε
"""
