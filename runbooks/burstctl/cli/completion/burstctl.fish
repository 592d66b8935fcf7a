function __burstctl_offers
    set -l begun (commandline -ct)
    set -l before (string match -r -- '^--[^=]+=' $begun)
    set -l after (string replace -r -- '^--[^=]+=' '' $begun)
    set -l line (commandline -cp | string collect)
    for offer in (env BURSTCTL_LINE=$line _BURSTCTL_COMPLETE=fish_complete burstctl 2>/dev/null)
        set -l part (string split \t -- $offer)
        switch $part[1]
            case plain
                printf '%s%s\t%s\n' "$before" $part[2] "$part[3]"
            case file
                for found in (__fish_complete_path "$after")
                    printf '%s%s\n' "$before" $found
                end
            case dir
                for found in (__fish_complete_directories "$after" '')
                    printf '%s%s\n' "$before" $found
                end
        end
    end
end
complete --command burstctl --no-files --keep-order --arguments '(__burstctl_offers)'
