"""How a result looks: :mod:`content` says what is shown, :mod:`terminal` and :mod:`html` draw it."""
