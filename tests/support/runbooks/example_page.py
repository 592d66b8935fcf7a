"""A page with each kind of command."""

TEXT = r"""# A page

1. A step:

   <!-- lab: 5 min later -->
   ```console
   $ aws logs tail "$(stack 'Watch')" --since 3h \
       --filter-pattern '{ $.level = "ERROR" }'
   nothing, it isn't
   $ stack() { aws describe "x" \
       --query "a[?b=='$1']"; }
   ```

```sh
$ not a command of ours
```

```console
$ for each in a b; do
    echo $each   # that's all
  done
a

b
$ true
```
"""
